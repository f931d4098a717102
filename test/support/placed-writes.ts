/**
 * Owns a hand between this process and its files: every write at a place of an open file (pwrite(2)), such as a
 * witness makes, is made by whoever took hold.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/** Makes the write as it was asked for; resolves with how many bytes were taken. */
export type PlacedWrite = (length?: number) => Promise<number>;

type Told = (failure: unknown, written: number) => void;

/** Until the returned function is called, `instead` is asked for every such write. */
export function takeHold(instead: (write: PlacedWrite) => Promise<number>): () => void {
  const { write } = fs;
  Object.assign(fs, {
    write(...args: readonly unknown[]) {
      const [fd, bytes, from, length, position, told] = args;
      // Others (a log's) write on at the end.
      if (typeof position !== "number") return Reflect.apply(write, fs, args);
      const placed: PlacedWrite = (some) =>
        new Promise((resolve, reject) => {
          const tell: Told = (failure, written) =>
            failure === null ? resolve(written) : reject(failure);
          Reflect.apply(write, fs, [fd, bytes, from, some ?? length, position, tell]);
        });
      instead(placed).then(
        (written) => Reflect.apply(told as Told, null, [null, written]),
        (failure) => Reflect.apply(told as Told, null, [failure, 0]),
      );
    },
  });
  syncBuiltinESMExports();
  return () => {
    Object.assign(fs, { write });
    syncBuiltinESMExports();
  };
}
