/** Declares files on a node (node-host-io.md, "File operations"). */
import { z } from "zod";
import { base64Bytes, base64Field } from "../base64.ts";
import { FILE_BOUNDS, fileAnswers, fileFields } from "../files.ts";
import { method, settledBy } from "../method.ts";
import { nodeSelector } from "./nodes.ts";

const nodeId = nodeSelector;
const { path, modifiedAtMs, sourceModifiedAtMs } = fileFields;
const dataBase64 = base64Field(FILE_BOUNDS.chunkBytes);
/** A path and the framing of an answer. */
const FRAMING_BYTES = 16_384;
/** A name has up to 255 bytes; an entry has seven more fields. */
const ENTRY_BYTES = 512;
const { bytes: _bytes, ...readAnswer } = fileAnswers.read.shape;

export const nodeFsList = method({
  name: "node.fs.list",
  summary: "The first 500 entries of a directory, by name.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({ nodeId, path, showHidden: fileFields.showHidden.default(false) }),
  answerBytes: () => FRAMING_BYTES + FILE_BOUNDS.listedEntries * ENTRY_BYTES,
  result: fileAnswers.list.extend({ limit: z.literal(FILE_BOUNDS.listedEntries) }),
});

export const nodeFsStat = method({
  name: "node.fs.stat",
  summary: "What is at a path.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({ nodeId, path }),
  result: fileAnswers.stat,
});

export const nodeFsRead = method({
  name: "node.fs.read",
  summary: "A chunk of a regular file, of at most 1 MiB.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({
    nodeId,
    path,
    offset: fileFields.offset.default(0),
    length: fileFields.length.default(FILE_BOUNDS.chunkBytes),
  }),
  answerBytes: ({ length }) => FRAMING_BYTES + base64Bytes(length),
  result: z.object({
    ...readAnswer,
    // Made by this control plane: a megabyte of text is not read over again to see that it is base64.
    dataBase64: z.string().meta({ contentEncoding: "base64" }),
    length: z.int().nonnegative().describe("Of the chunk, in bytes."),
  }),
});

/** No mutation of files is ever sent again by itself: what is there is read first. */
const settled = settledBy(nodeFsStat, "nodeId", "path");

export const nodeFsWrite = method({
  name: "node.fs.write",
  summary: "Writes a chunk of at most 1 MiB into a regular file, provided that it is as last seen.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({
    nodeId,
    path,
    dataBase64: dataBase64.describe('What to write; "" is nothing.'),
    offset: fileFields.offset.default(0),
    truncate: fileFields.truncate.default(true),
    mkdirs: fileFields.mkdirs.default(false),
    expectedModifiedAtMs: modifiedAtMs.optional(),
  }),
  result: fileAnswers.write,
  settledBy: settled,
});

export const nodeFsMkdir = method({
  name: "node.fs.mkdir",
  summary: "Creates a directory and its parents; one that is there already is as good.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId, path }),
  result: fileAnswers.mkdir.extend({ created: z.literal(true) }),
  settledBy: settled,
});

export const nodeFsMove = method({
  name: "node.fs.move",
  summary: "Renames within a file system, atomically; replaces only when it is told to.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({
    nodeId,
    path,
    destination: fileFields.destination,
    expectedModifiedAtMs: sourceModifiedAtMs,
    overwrite: fileFields.overwrite.default(false),
  }),
  result: fileAnswers.move.extend({ moved: z.literal(true) }),
  settledBy: settled,
});

export const nodeFsDeletePreview = method({
  name: "node.fs.delete.preview",
  summary: "What a deletion would delete, and the token without which it does not.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({ nodeId, path, recursive: fileFields.recursive.default(false) }),
  result: fileAnswers.preview,
});

export const nodeFsDelete = method({
  name: "node.fs.delete",
  summary: "Deletes exactly what was previewed.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({
    nodeId,
    path,
    confirm: fileFields.confirm,
    confirmationToken: fileFields.confirmationToken,
  }),
  result: fileAnswers.delete.extend({ deleted: z.literal(true) }),
  settledBy: settled,
});

export const FILE_METHODS = [
  nodeFsList,
  nodeFsStat,
  nodeFsRead,
  nodeFsWrite,
  nodeFsMkdir,
  nodeFsMove,
  nodeFsDeletePreview,
  nodeFsDelete,
] as const;
