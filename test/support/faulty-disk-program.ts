/**
 * A program: a file system in memory over /dev/fuse (fuse(4), linux/fuse.h, 7.31) that fails or hangs where it is
 * told to. With the end of its input it goes away, and all that hangs is answered.
 *
 *   argv     the folder to mount on
 *   stdin    a line each: {"operation":"unlink","name":"x","answer":"EIO","after":0}; `hang` for an answer
 *            that never comes; so many go well before. {} for no fault any more
 *   stdout   `ready`; `hangs <operation>` when a request has met that
 */
import { openSync, read, writeSync } from "node:fs";
import { constants } from "node:os";
import { createInterface } from "node:readline";
import { checked, native } from "../../host/native/library.ts";

interface Node {
  readonly id: number;
  /** Null: a regular file. */
  readonly children: Map<string, Node> | null;
  name: string;
  mode: number;
  links: number;
  bytes: Buffer;
  modifiedNs: bigint;
  changedNs: bigint;
}

type Answer = Buffer | keyof typeof constants.errno;

const OPERATIONS: Readonly<Record<number, string>> = {
  1: "lookup",
  2: "forget",
  3: "getattr",
  4: "setattr",
  9: "mkdir",
  10: "unlink",
  11: "rmdir",
  13: "link",
  14: "open",
  15: "read",
  16: "write",
  17: "statfs",
  18: "release",
  20: "fsync",
  25: "flush",
  26: "init",
  27: "opendir",
  28: "readdir",
  29: "releasedir",
  30: "fsyncdir",
  35: "create",
  36: "interrupt",
  42: "forget",
  45: "rename",
};
/** Their request begins with a name, at this offset. */
const NAMED: Readonly<Record<string, number>> = {
  lookup: 0,
  mkdir: 8,
  unlink: 0,
  rmdir: 0,
  link: 8,
  create: 16,
  rename: 16,
};
const HEADER_BYTES = 40;
const REQUEST_BYTES = 1_048_576 + 65_536;
const DIRECT_IO = 1;
const { S_IFDIR, S_IFREG } = { S_IFDIR: 0o040_000, S_IFREG: 0o100_000 };
const NOTHING = Buffer.alloc(0);

let latestNs = 0n;
/** No two changes at one time. */
function nowNs(): bigint {
  const now = BigInt(Date.now()) * 1_000_000n;
  latestNs = now > latestNs ? now : latestNs + 1n;
  return latestNs;
}

const nodes = new Map<number, Node>();
const faults = new Map<string, { readonly answer: string; after: number }>();

function make(name: string, mode: number): Node {
  const now = nowNs();
  const isDirectory = (mode & S_IFDIR) !== 0;
  const node: Node = {
    id: nodes.size + 1,
    children: isDirectory ? new Map() : null,
    name,
    mode,
    links: 1,
    bytes: NOTHING,
    modifiedNs: now,
    changedNs: now,
  };
  nodes.set(node.id, node);
  return node;
}

function attributes({ id, bytes, mode, links, modifiedNs, changedNs }: Node): Buffer {
  const out = Buffer.alloc(88);
  out.writeBigUInt64LE(BigInt(id), 0);
  out.writeBigUInt64LE(BigInt(bytes.length), 8);
  [modifiedNs, modifiedNs, changedNs].forEach((ns, index) => {
    out.writeBigUInt64LE(ns / 1_000_000_000n, 24 + index * 8);
    out.writeUInt32LE(Number(ns % 1_000_000_000n), 48 + index * 4);
  });
  for (const [index, value] of [mode, links].entries()) out.writeUInt32LE(value, 60 + index * 4);
  out.writeUInt32LE(4_096, 80);
  return out;
}

function entry(node: Node): Buffer {
  const out = Buffer.alloc(40);
  out.writeBigUInt64LE(BigInt(node.id), 0);
  return Buffer.concat([out, attributes(node)]);
}

function opened(): Buffer {
  const out = Buffer.alloc(16);
  out.writeUInt32LE(DIRECT_IO, 8);
  return out;
}

function listing(directory: Node, offset: number, size: number): Buffer {
  const parts: Buffer[] = [];
  let bytes = 0;
  const all = [...(directory.children ?? [])];
  for (const [index, [name, child]] of all.entries()) {
    if (index < offset) continue;
    const text = Buffer.from(name);
    const part = Buffer.alloc(Math.ceil((24 + text.length) / 8) * 8);
    part.writeBigUInt64LE(BigInt(child.id), 0);
    part.writeBigUInt64LE(BigInt(index + 1), 8);
    part.writeUInt32LE(text.length, 16);
    part.writeUInt32LE(child.mode >> 12, 20);
    text.copy(part, 24);
    bytes += part.length;
    if (bytes > size) break;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function setAttributes(node: Node, body: Buffer): Buffer {
  const valid = body.readUInt32LE(0);
  if ((valid & 1) !== 0) node.mode = body.readUInt32LE(68);
  if ((valid & 8) !== 0) resize(node, Number(body.readBigUInt64LE(16)));
  if ((valid & 256) !== 0) node.modifiedNs = nowNs();
  else if ((valid & 32) !== 0)
    node.modifiedNs = body.readBigUInt64LE(40) * 1_000_000_000n + BigInt(body.readUInt32LE(60));
  node.changedNs = nowNs();
  return Buffer.concat([Buffer.alloc(16), attributes(node)]);
}

function resize(node: Node, size: number): void {
  const next = Buffer.alloc(size);
  node.bytes.copy(next);
  node.bytes = next;
  node.modifiedNs = nowNs();
  node.changedNs = node.modifiedNs;
}

function write(node: Node, body: Buffer): Buffer {
  const offset = Number(body.readBigUInt64LE(8));
  const data = body.subarray(40, 40 + body.readUInt32LE(16));
  if (offset + data.length > node.bytes.length) resize(node, offset + data.length);
  data.copy(node.bytes, offset);
  node.modifiedNs = nowNs();
  node.changedNs = node.modifiedNs;
  const out = Buffer.alloc(8);
  out.writeUInt32LE(data.length, 0);
  return out;
}

function place(parent: Node, name: string, node: Node): void {
  parent.children?.set(name, node);
  node.name = name;
  touch(parent);
}

function take(parent: Node, name: string): void {
  parent.children?.delete(name);
  touch(parent);
}

function touch(node: Node): void {
  node.modifiedNs = nowNs();
  node.changedNs = node.modifiedNs;
}

/** What a file system does when nothing is wrong. */
function perform(operation: string, node: Node, body: Buffer): Answer {
  const [name = "", other = ""] = namesIn(operation, body);
  const child = node.children?.get(name);
  switch (operation) {
    case "init": {
      const out = Buffer.alloc(64);
      for (const [index, value] of [7, 31, 65_536].entries()) out.writeUInt32LE(value, index * 4);
      out.writeUInt32LE(1_048_576, 20);
      out.writeUInt32LE(1, 24);
      return out;
    }
    case "lookup":
      return child === undefined ? "ENOENT" : entry(child);
    case "getattr":
      return Buffer.concat([Buffer.alloc(16), attributes(node)]);
    case "setattr":
      return setAttributes(node, body);
    case "mkdir":
    case "create": {
      if (child !== undefined) return "EEXIST";
      const isFile = operation === "create";
      const mode = isFile ? S_IFREG | body.readUInt32LE(4) : S_IFDIR | body.readUInt32LE(0);
      const made = make(name, mode);
      place(node, name, made);
      return isFile ? Buffer.concat([entry(made), opened()]) : entry(made);
    }
    case "unlink":
    case "rmdir":
      if (child === undefined) return "ENOENT";
      if ((child.children?.size ?? 0) > 0) return "ENOTEMPTY";
      child.links -= 1;
      child.changedNs = nowNs();
      take(node, name);
      return NOTHING;
    case "link": {
      const old = nodes.get(Number(body.readBigUInt64LE(0)));
      if (old === undefined) return "ENOENT";
      old.links += 1;
      old.changedNs = nowNs();
      place(node, name, old);
      return entry(old);
    }
    case "rename": {
      const to = nodes.get(Number(body.readBigUInt64LE(0)));
      if (child === undefined || to === undefined) return "ENOENT";
      if (to.children?.has(other) && (body.readUInt32LE(8) & 1) !== 0) return "EEXIST";
      take(node, name);
      place(to, other, child);
      child.changedNs = nowNs();
      return NOTHING;
    }
    case "open":
    case "opendir":
      return opened();
    case "read": {
      const offset = Number(body.readBigUInt64LE(8));
      return node.bytes.subarray(offset, offset + body.readUInt32LE(16));
    }
    case "readdir":
      return listing(node, Number(body.readBigUInt64LE(8)), body.readUInt32LE(16));
    case "write":
      return write(node, body);
    case "statfs": {
      const out = Buffer.alloc(80);
      for (const at of [0, 8, 16, 24, 32]) out.writeBigUInt64LE(1_000_000n, at);
      for (const [index, value] of [4_096, 255, 4_096].entries())
        out.writeUInt32LE(value, 40 + index * 4);
      return out;
    }
    case "release":
    case "releasedir":
    case "fsync":
    case "fsyncdir":
    case "flush":
      return NOTHING;
    default:
      return "ENOSYS";
  }
}

function namesIn(operation: string, body: Buffer): string[] {
  const at = NAMED[operation];
  return at === undefined ? [] : body.subarray(at).toString().split("\0");
}

function serve(device: number, request: Buffer): void {
  const operation = OPERATIONS[request.readUInt32LE(4)] ?? "unknown";
  if (operation === "forget" || operation === "interrupt") return;
  const body = request.subarray(HEADER_BYTES, request.readUInt32LE(0));
  const node = nodes.get(Number(request.readBigUInt64LE(16))) ?? root;
  const [name = node.name] = namesIn(operation, body);
  const due = faults.get(`${operation} ${name}`) ?? faults.get(`${operation} *`);
  const fault = due !== undefined && due.after-- <= 0 ? due.answer : undefined;
  if (fault === "hang") {
    process.stdout.write(`hangs ${operation}\n`);
    return;
  }
  const answer = isErrno(fault) ? fault : perform(operation, node, body);
  const payload = typeof answer === "string" ? NOTHING : answer;
  const out = Buffer.alloc(16 + payload.length);
  out.writeUInt32LE(out.length, 0);
  out.writeInt32LE(typeof answer === "string" ? -constants.errno[answer] : 0, 4);
  request.copy(out, 8, 8, 16);
  payload.copy(out, 16);
  writeSync(device, out);
}

function isErrno(fault: string | undefined): fault is keyof typeof constants.errno {
  return fault !== undefined && Object.hasOwn(constants.errno, fault);
}

const root = make("", S_IFDIR | 0o700);
const [, , folder = ""] = process.argv;
const device = openSync("/dev/fuse", "r+");
const mount = native(
  "int mount(const char *source, const char *target, const char *type, ulong flags, const char *data)",
);
const umount2 = native("int umount2(const char *target, int flags)");
const MNT_DETACH = 2;
const options = `fd=${device},rootmode=40000,user_id=0,group_id=0`;
checked("mount", mount("lemon-test", folder, "fuse.lemon-test", 0, options));

const buffer = Buffer.alloc(REQUEST_BYTES);
function next(): void {
  read(device, buffer, 0, buffer.length, null, (failure, length) => {
    if (failure !== null) process.exit(1);
    serve(device, Buffer.from(buffer.subarray(0, length)));
    next();
  });
}
next();
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { operation, name, answer, after } = JSON.parse(line);
    if (operation === undefined) faults.clear();
    else faults.set(`${operation} ${name}`, { answer, after });
    process.stdout.write("told\n");
  })
  .on("close", () => {
    umount2(folder, MNT_DETACH);
    // An ordinary exit waits for the thread that reads, which waits for whoever still has something open there.
    process.kill(process.pid, "SIGKILL");
  });
process.stdout.write("ready\n");
