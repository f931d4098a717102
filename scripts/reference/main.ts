/** Program: writes `docs/reference/` anew (`npm run reference`). */
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { referencePages } from "./pages.ts";

const folder = join(import.meta.dirname, "../../docs/reference");
const pages = await referencePages();
await mkdir(folder, { recursive: true });
for (const name of await readdir(folder)) if (!pages.has(name)) await rm(join(folder, name));
for (const [name, text] of pages) await writeFile(join(folder, name), text);
