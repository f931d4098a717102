/**
 * Owns the kernel's own word on what happened to a tree (inotify(7)): every open, read, write, change of
 * attributes, creation, removal and move in it, by whoever. A handle (`O_PATH`) opens nothing, and is not
 * told of.
 */
import { closeSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { checked, native } from "../../host/native/library.ts";
import { errnoOf } from "../../host/system-error.ts";

const IN_ALL_EVENTS = 0xfff;
const IN_NONBLOCK_CLOEXEC = 0o2_004_000;

const inotifyInit = native("int inotify_init1(int flags)");
const addWatch = native("int inotify_add_watch(int fd, const char *path, uint mask)");

export interface WatchedTree extends Disposable {
  /** Whether anything happened since it is watched, or since this was asked last. */
  isTouched(): boolean;
}

export function watchTree(path: string): WatchedTree {
  const folders = [
    path,
    ...readdirSync(path, { recursive: true, encoding: "utf8" }).map((name) => join(path, name)),
  ];
  const fd = checked("inotify_init1", inotifyInit(IN_NONBLOCK_CLOEXEC));
  for (const each of folders.filter((name) => statSync(name).isDirectory()))
    checked("inotify_add_watch", addWatch(fd, each, IN_ALL_EVENTS));
  const events = Buffer.alloc(65_536);
  return {
    isTouched() {
      try {
        return readSync(fd, events) > 0;
      } catch (failure) {
        if (errnoOf(failure) === "EAGAIN") return false;
        throw failure;
      }
    },
    [Symbol.dispose]: () => closeSync(fd),
  };
}
