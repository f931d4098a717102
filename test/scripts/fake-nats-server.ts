/** Executables that answer `--version` like a nats-server, for looking one up; they serve nothing. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export function writeServer(path: string, version: string): string {
  return writeProgram(path, `echo "nats-server: v${version}"`);
}

export function writeProgram(path: string, body: string, mode = 0o755): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode });
  return path;
}
