/**
 * Owns UNIX sockets that Node can not make: a receiver of datagrams, where what was sent waits in the kernel until it
 * is taken; and one that is listened on by whoever inherits it.
 */
import { checked, native } from "../../host/native/library.ts";

const socket = native("int socket(int domain, int type, int protocol)");
const bind = native("int bind(int fd, const void *address, int length)");
const recv = native("long recv(int fd, void *bytes, size_t length, int flags)");
const listen = native("int listen(int fd, int backlog)");
const close = native("int close(int fd)");
const AF_UNIX = 1;
const SOCK_STREAM_CLOEXEC = 1 | 0o2000000;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
const MSG_DONTWAIT = 0x40;

function bound(type: number, address: string): number {
  const fd = checked("socket", socket(AF_UNIX, type, 0));
  const name = Buffer.from(address.startsWith("@") ? `\0${address.slice(1)}` : `${address}\0`);
  const to = Buffer.alloc(2 + name.length);
  to.writeUInt16LE(AF_UNIX);
  name.copy(to, 2);
  checked("bind", bind(fd, to, to.length));
  return fd;
}

/** Its descriptor, for the `stdio` of a child, which is to accept; the caller's to close. */
export function listeningSocket(path: string): number {
  const fd = bound(SOCK_STREAM_CLOEXEC, path);
  checked("listen", listen(fd, 16));
  return fd;
}

export interface Datagrams {
  /** All that have come since the last call, oldest first. */
  take(): readonly string[];
  [Symbol.dispose](): void;
}

/** `address`: a path, or an abstract name behind `@` (unix(7)). */
export function receiveDatagrams(address: string): Datagrams {
  const fd = bound(SOCK_DGRAM_CLOEXEC, address);
  return {
    take() {
      const taken: string[] = [];
      const bytes = Buffer.alloc(4_096);
      for (;;) {
        const length = recv(fd, bytes, bytes.length, MSG_DONTWAIT);
        if (length < 0) return taken;
        taken.push(bytes.toString("utf8", 0, length));
      }
    },
    [Symbol.dispose]: () => void close(fd),
  };
}
