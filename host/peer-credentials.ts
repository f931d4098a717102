/** Owns who is at the other end of a UNIX socket: SO_PEERCRED (unix(7), Linux only). */
import type { Socket } from "node:net";
import { checked, native } from "./native/library.ts";

export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

const getsockopt = native("int getsockopt(int fd, int level, int name, void *value, void *length)");
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** As the kernel noted them at connect(2). Null where it can not be told: another system, a socket that is gone. */
export function peerCredentials(socket: Socket): PeerCredentials | null {
  const fd = descriptorOf(socket);
  if (fd === null || process.platform !== "linux") return null;
  const credentials = Buffer.alloc(12);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(credentials.length);
  try {
    checked("getsockopt", getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, length));
  } catch {
    return null;
  }
  return {
    pid: credentials.readInt32LE(0),
    uid: credentials.readUInt32LE(4),
    gid: credentials.readUInt32LE(8),
  };
}

/** Node keeps it on the handle alone. */
function descriptorOf(socket: Socket): number | null {
  const { _handle: handle } = socket as Socket & { readonly _handle?: { readonly fd?: unknown } };
  const fd = handle?.fd;
  return typeof fd === "number" && fd >= 0 ? fd : null;
}
