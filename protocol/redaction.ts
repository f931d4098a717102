/**
 * Owns what must not be shown of facts that others told us (control-plane-wire.md 3).
 *
 * 1. What is in doubt is not shown; what has nothing of a secret is shown as it is.
 * 2. The time is linear in the text, whatever it holds: no part of a pattern can match what its neighbour can.
 */

const SECRET_WORD =
  "token|secret|passw(?:or)?d|passphrase|(?:api|private|access)[-_ ]?key|credential|cookie|authorization";
const SECRET_NAME = new RegExp(SECRET_WORD, "i");
/**
 * The name of a secret, up to its value: `OPENAI_API_KEY=`, `password: `, `"password":`, also with the quotes
 * escaped, as JSON in JSON has them; or `Bearer `, which is followed by one wherever it stands.
 */
const BEFORE_SECRET = new RegExp(
  `(?<word>${SECRET_WORD})(?<rest>[\\w-]{0,64}\\\\*["']?)\\s*(?<sign>=>|[:=]{1,3})\\s*|\\bBearer\\s+(?=\\S)`,
  "gi",
);
const PRIVATE_KEY =
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g;
/** `https://user:password@host/` */
const URL_PASSWORD = /(:\/\/[^\s/?#@:]*:)[^\s/?#]+@/g;

const OPENING_QUOTE = /\\*["']/y;
/** A value without quotes; a scheme of HTTP's goes with what follows it. */
const BARE = /(?:(?:Basic|Bearer|Digest|Negotiate|Token)[ \t]+)?[^\s,;]*/iy;
/** What headers hold has blanks, commas and semicolons: `Cookie: a=b; c=d`. */
const HEADER = /[^\r\n"']*/y;
const HEADER_NAME = /^(?:authorization|cookie)$/i;
/** `max_tokens: 4096` is a number of tokens and no token. */
const COUNT = /^\d{1,9}[)\]}]*$/;

const TEXT = "[REDACTED]";
const REDACTED = { redacted: true, kind: "secret" } as const;

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A copy of plain JSON without what looks like a secret, by its name or inside a text. */
export function redacted(value: unknown): unknown {
  if (typeof value === "string") return redactedText(value);
  if (Array.isArray(value)) return value.map(redacted);
  if (typeof value !== "object" || value === null) return value;
  return redactedMap(value as Readonly<Record<string, unknown>>);
}

export function redactedMap(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(map).map(([name, value]) => [
      name,
      isSecretName(name) ? REDACTED : redacted(value),
    ]),
  );
}

function redactedText(given: string): string {
  const text = given.replace(PRIVATE_KEY, TEXT).replace(URL_PASSWORD, `$1${TEXT}@`);
  let shown = "";
  let from = 0;
  BEFORE_SECRET.lastIndex = 0;
  for (let found = BEFORE_SECRET.exec(text); found !== null; found = BEFORE_SECRET.exec(text)) {
    const valueAt = BEFORE_SECRET.lastIndex;
    const { word, rest = "", sign = "" } = found.groups ?? {};
    const { end, quote } = secretAt(text, valueAt, word ?? "");
    BEFORE_SECRET.lastIndex = end;
    const isCount = /^token$/i.test(word ?? "") && /^\w/.test(rest);
    if (end === valueAt || (isCount && COUNT.test(text.slice(valueAt, end)))) continue;
    const name = word === undefined ? "Bearer " : `${word}${rest}${sign}`;
    shown += `${text.slice(from, found.index)}${name}${quote}${TEXT}${quote}`;
    from = end;
  }
  return shown + text.slice(from);
}

/** Where the value that begins at `at` ends, and the quote that it stands in. */
function secretAt(text: string, at: number, word: string): { end: number; quote: string } {
  const quote = matchAt(OPENING_QUOTE, text, at);
  if (quote !== "") return { end: closed(text, at + quote.length, quote), quote };
  const pattern = HEADER_NAME.test(word) ? HEADER : BARE;
  return { end: at + matchAt(pattern, text, at).length, quote };
}

/** Where the text behind an opening quote is closed; its end when it is not. */
function closed(text: string, from: number, opening: string): number {
  const mark = opening.slice(-1);
  // A level of JSON doubles the backslashes and adds one; pairs of them are backslashes of the value.
  const level = 2 * opening.length;
  let begin = from;
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, begin)) {
    let escapes = 0;
    while (at - escapes > begin && text[at - escapes - 1] === "\\") escapes += 1;
    begin = at + 1;
    if (escapes % level === opening.length - 1) return begin;
  }
  return text.length;
}

function matchAt(sticky: RegExp, text: string, at: number): string {
  sticky.lastIndex = at;
  return sticky.exec(text)?.[0] ?? "";
}
