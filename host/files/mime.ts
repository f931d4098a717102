/**
 * Owns the guess of a media type from a file's name (IANA media types). A hint for whoever shows the file,
 * never looked up in its content: so a short table of what people keep in files will do, and no package of
 * two thousand rows.
 */
const UNKNOWN = "application/octet-stream";

const TYPES: Readonly<Record<string, string>> = {
  "application/gzip": "gz tgz",
  "application/java-archive": "jar",
  "application/json": "json map",
  "application/jsonl": "jsonl ndjson",
  "application/msword": "doc",
  "application/pdf": "pdf",
  "application/postscript": "ps eps",
  "application/rtf": "rtf",
  "application/sql": "sql",
  "application/toml": "toml",
  "application/vnd.ms-excel": "xls",
  "application/vnd.ms-powerpoint": "ppt",
  "application/vnd.oasis.opendocument.presentation": "odp",
  "application/vnd.oasis.opendocument.spreadsheet": "ods",
  "application/vnd.oasis.opendocument.text": "odt",
  "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
  "application/vnd.sqlite3": "sqlite sqlite3",
  "application/wasm": "wasm",
  "application/x-7z-compressed": "7z",
  "application/x-bzip2": "bz2",
  "application/x-sh": "sh",
  "application/x-tar": "tar",
  "application/x-xz": "xz",
  "application/xml": "xml xsl",
  "application/yaml": "yaml yml",
  "application/zip": "zip",
  "application/zstd": "zst",
  "audio/aac": "aac",
  "audio/flac": "flac",
  "audio/mp4": "m4a",
  "audio/mpeg": "mp3",
  "audio/ogg": "oga ogg opus",
  "audio/wav": "wav",
  "font/otf": "otf",
  "font/ttf": "ttf",
  "font/woff": "woff",
  "font/woff2": "woff2",
  "image/avif": "avif",
  "image/bmp": "bmp",
  "image/gif": "gif",
  "image/heic": "heic",
  "image/jpeg": "jpeg jpg",
  "image/png": "png",
  "image/svg+xml": "svg",
  "image/tiff": "tif tiff",
  "image/vnd.microsoft.icon": "ico",
  "image/webp": "webp",
  "message/rfc822": "eml",
  "text/calendar": "ics",
  "text/css": "css",
  "text/csv": "csv",
  "text/html": "htm html",
  "text/javascript": "cjs js mjs",
  "text/markdown": "markdown md",
  "text/plain": "c cc conf cpp go h hpp ini java log py rb rs text ts tsx txt",
  "text/tab-separated-values": "tsv",
  "text/vcard": "vcf",
  "video/mp4": "m4v mp4",
  "video/mpeg": "mpeg mpg",
  "video/ogg": "ogv",
  "video/quicktime": "mov",
  "video/webm": "webm",
  "video/x-matroska": "mkv",
  "video/x-msvideo": "avi",
};

const TYPE_OF = new Map(
  Object.entries(TYPES).flatMap(([type, extensions]) =>
    extensions.split(" ").map((extension) => [extension, type] as const),
  ),
);

/** By what follows the last dot, in any case; a name that only begins with a dot has no such thing. */
export function mimeOf(name: string): string {
  const dot = name.lastIndexOf(".");
  if (dot <= 0) return UNKNOWN;
  return TYPE_OF.get(name.slice(dot + 1).toLowerCase()) ?? UNKNOWN;
}
