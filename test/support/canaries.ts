/** Owns the search for what must not have been written: secrets and contents, in every file below a folder. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** The files below `folder` that hold `secret`: as it is, backwards, in base64 at any alignment, or in hex. */
export function filesHolding(folder: string, secret: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => holds(readFileSync(path), secret))
    .map((path) => relative(folder, path))
    .sort();
}

/** Whether `bytes` hold `secret` in any of those forms. */
export function holds(bytes: Buffer, secret: string): boolean {
  return formsOf(secret).some((form) => bytes.includes(form, 0, "latin1"));
}

/** Base64 looks different at each of three places in a group, and its ends depend on what is around. */
function formsOf(secret: string): string[] {
  const plain = Buffer.from(secret, "utf8");
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), plain]).toString("base64");
    const whole = Math.floor((before + plain.length) / 3) * 4;
    return text.slice(Math.ceil((before * 4) / 3), whole);
  });
  const urlSafe = base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const hex = plain.toString("hex");
  const backwards = Buffer.from(plain).reverse().toString("latin1");
  return [plain.toString("latin1"), backwards, ...base64, ...urlSafe, hex, hex.toUpperCase()];
}
