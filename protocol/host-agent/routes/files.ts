/** Declares a user's files: each operation runs as that user, inside the home or the household's folder. */
import { z } from "zod";
import type { HostAgentErrorCode } from "../errors.ts";
import { done, requiredText, route } from "../route.ts";

const user = requiredText("user is required");
const root = z.enum(["home", "shared"], { error: "root must be home or shared" });
const path = z
  .string()
  .max(4096, "path is too long")
  .default("")
  .describe('Relative to the root; "" and "." are the root itself.');

const place = z.object({ root, path });
const owned = z.object({ user, root, path });

const entry = z.object({
  name: z.string(),
  dir: z.boolean(),
  size_bytes: z.int().nonnegative(),
  mtime: z.iso.datetime(),
  hidden: z.boolean(),
});

const REFUSED = [
  "bad-request",
  "bad-path",
  "unknown-user",
  "not-found",
  "permission-denied",
] as const satisfies readonly HostAgentErrorCode[];
const WRITE_REFUSED = [
  ...REFUSED,
  "exists",
  "no-space",
  "blocked-by-health-issue",
] as const satisfies readonly HostAgentErrorCode[];

const read = {
  method: "POST",
  effect: "read",
  body: owned,
  errors: REFUSED,
  failure: "files-failed",
} as const;
const write = { method: "POST", errors: WRITE_REFUSED, failure: "files-failed" } as const;

export const filesList = route({
  name: "filesList",
  path: "/v1/files/list",
  summary: "The entries of a folder, by name.",
  ...read,
  result: z.object({ entries: z.array(entry) }),
});

export const filesStat = route({
  name: "filesStat",
  path: "/v1/files/stat",
  summary: "One entry.",
  ...read,
  result: entry,
});

export const filesMkdir = route({
  name: "filesMkdir",
  path: "/v1/files/mkdir",
  summary: "Makes a folder in one that exists.",
  ...write,
  body: owned,
  result: done,
});

const between = z.object({ user, from: place, to: place });

export const filesMove = route({
  name: "filesMove",
  path: "/v1/files/move",
  summary: "Moves or renames, within a root or across; replaces nothing.",
  ...write,
  body: between,
  result: done,
});

export const filesCopy = route({
  name: "filesCopy",
  path: "/v1/files/copy",
  summary: "Copies a file or a whole folder; replaces nothing.",
  ...write,
  body: between,
  result: done,
});

export const filesDelete = route({
  name: "filesDelete",
  path: "/v1/files/delete",
  summary: "Deletes a file or a whole folder, for good.",
  ...write,
  body: owned,
  result: done,
});

export const filesDownload = route({
  name: "filesDownload",
  method: "GET",
  path: "/v1/files/content",
  summary: "The bytes of a file, streamed, however long it takes.",
  query: owned,
  result: z.unknown(),
  errors: REFUSED,
  failure: "files-failed",
  stream: "octets",
});

export const filesUpload = route({
  name: "filesUpload",
  method: "PUT",
  path: "/v1/files/content",
  summary: "Writes a file from the request's bytes; it is there whole or not at all.",
  query: owned,
  upload: true,
  result: done,
  errors: WRITE_REFUSED,
  failure: "files-failed",
});
