/**
 * Owns the shapes and bounds of file operations that gateway and node share (node-host-io.md, "File
 * operations"). Inside the fleet bytes are bytes; base64 exists only at the `/ws` edge.
 */
import { z } from "zod";
import { nativePath } from "./native-path.ts";
import { classified } from "./params.ts";

export const FILE_BOUNDS = {
  /** Decoded bytes of one read or write. */
  chunkBytes: 1_048_576,
  offset: Number.MAX_SAFE_INTEGER,
  listedEntries: 500,
  /** What a node retains of previews, all together. */
  previews: 128,
  previewedEntries: 20_000,
  previewBytes: 16 * 1024 * 1024,
  previewMs: 5 * 60 * 1_000,
  /** How long the helper may take for one request. */
  helperMs: 25_000,
} as const;

/** What the name is made of under which a file grows on a node until it is whole: hexadecimal digits. */
export const UPLOAD_PART = { prefix: ".lemon-put-", digits: 24 } as const;

const FILE_TYPES = [
  "regular",
  "directory",
  "symlink",
  "fifo",
  "socket",
  "character_device",
  "block_device",
  "unknown",
] as const;

const offset = z.int().min(0, "must be at least 0");
const length = z
  .int()
  .min(1, `must be 1 to ${FILE_BOUNDS.chunkBytes}`)
  .max(FILE_BOUNDS.chunkBytes, `must be 1 to ${FILE_BOUNDS.chunkBytes}`);
const flag = z.boolean();

/** The fields of a request that read the same on `/ws` and inside the fleet. */
export const fileFields = {
  path: nativePath.describe(
    "On the node; a relative path counts from the node's default working directory.",
  ),
  showHidden: flag.describe("Whether names that begin with a dot are listed."),
  offset: offset.describe("In bytes from the start of the file; never in characters of base64."),
  length: length.describe("The most to read, in bytes; the answer may be shorter."),
  truncate: flag.describe("Whether the file ends after what was written."),
  mkdirs: flag.describe("Whether missing parents are created."),
  modifiedAtMs: z
    .int()
    .describe("`mtimeMs` as it was last seen; 0 demands that nothing is there yet."),
  sourceModifiedAtMs: z.int().describe("`mtimeMs` of the source as it was last seen."),
  destination: nativePath.describe("As `path`; its parent must exist."),
  overwrite: flag.describe("Whether what is at the destination is replaced."),
  recursive: flag.describe("Whether a directory that is not empty may be deleted, with all below."),
  confirm: z
    .string()
    .max(FILE_BOUNDS.chunkBytes)
    .describe("The path exactly as it stood in the preview's request."),
  confirmationToken: z.string().max(1_024).describe("From the preview; good once."),
};

/** Who asks, for fairness: an opaque name that is nobody's secret. */
const caller = z.string().max(128);

/** Requests as the node gets them. */
export const fileRequests = {
  list: z.strictObject({ caller, path: fileFields.path, showHidden: flag }),
  stat: z.strictObject({ caller, path: fileFields.path }),
  read: z.strictObject({ caller, path: fileFields.path, offset, length }),
  write: z.strictObject({
    caller,
    path: fileFields.path,
    bytes: z
      .instanceof(Uint8Array)
      .refine(
        (bytes) => bytes.length <= FILE_BOUNDS.chunkBytes,
        classified("too_large", `must be at most ${FILE_BOUNDS.chunkBytes} bytes`),
      ),
    offset,
    truncate: flag,
    mkdirs: flag,
    expectedModifiedAtMs: fileFields.modifiedAtMs.nullable(),
  }),
  mkdir: z.strictObject({ caller, path: fileFields.path }),
  move: z.strictObject({
    caller,
    path: fileFields.path,
    destination: fileFields.destination,
    expectedModifiedAtMs: fileFields.sourceModifiedAtMs,
    overwrite: flag,
  }),
  preview: z.strictObject({ caller, path: fileFields.path, recursive: flag }),
  delete: z.strictObject({
    caller,
    path: fileFields.path,
    confirm: fileFields.confirm,
    confirmationToken: fileFields.confirmationToken,
  }),
} as const;

const size = z.int().nonnegative();
const path = z.string().describe("Absolute and canonical on the node; may be used in later calls.");

const statFields = {
  type: z.enum(FILE_TYPES),
  size: size.describe("In bytes."),
  mtimeMs: z.int().describe("Modification time in Unix ms; the revision that a change asks for."),
  mode: z.int().nonnegative().describe("The file system's, as an integer."),
  mime: z.string().describe("Inferred from the name, not from the content."),
  readable: flag.describe("Whether the node's account may read it now."),
  writable: flag.describe("Whether the node's account may write it now."),
};

const fileStat = z.object(statFields);

const listedEntry = z.union([
  z.object({ name: z.string(), ...statFields }),
  z
    .object({ name: z.string(), error: z.string() })
    .describe("It was there, and could not be looked at."),
]);

/** Answers as the node gives them; those of `/ws` differ in `bytes`, and in what is constant. */
export const fileAnswers = {
  list: z.object({
    path,
    entries: z
      .array(listedEntry)
      .max(FILE_BOUNDS.listedEntries)
      .describe("Sorted by name; links are told as links, and never followed."),
    truncated: flag.describe("Whether there are more than are listed."),
  }),
  stat: z.object({ path, ...statFields }),
  read: z.object({
    path,
    bytes: z.instanceof(Uint8Array).refine((bytes) => bytes.length <= FILE_BOUNDS.chunkBytes),
    offset,
    size: size.describe("Of the whole file, as it was seen."),
    mime: statFields.mime,
    eof: flag.describe("Whether the chunk reaches the end of the file, or lies beyond it."),
  }),
  write: z.object({
    path,
    offset,
    bytesWritten: size,
    size: size.describe("Of the whole file, after the write."),
    mtimeMs: statFields.mtimeMs,
  }),
  mkdir: z.object({ path }),
  move: z.object({ path, destination: path }),
  preview: z.object({
    path,
    stat: fileStat,
    childCount: size.describe("Of its immediate children, hidden ones too."),
    childrenDigest: z.string().describe("Opaque; differs when a child does."),
    candidateCount: size.describe("All that would be deleted, itself too."),
    confirmationToken: z
      .string()
      .describe("What `node.fs.delete` takes once, within five minutes."),
    expiresAtMs: z.int().describe("When the token is void, in Unix ms."),
  }),
  delete: z.object({ path }),
} as const;
