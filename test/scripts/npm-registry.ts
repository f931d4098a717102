/**
 * An npm registry on loopback that serves one package, `fixture-node`, whose `node` command is the
 * Node.js that runs the tests (or any other program). It counts what it serves, and can be told to
 * leave a download half answered.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { writeProgram } from "./fake-nats-server.ts";

export interface FixturePackage {
  readonly version: string;
  readonly integrity: string;
}

export class NpmRegistry {
  readonly #server: Server;
  readonly #packages = new Map<string, Buffer>();
  readonly #integrities = new Map<string, string>();
  /** Told when the download to be held is asked for. */
  #onHeld: (() => void) | null = null;
  #url = "";
  /** Downloads begun so far. */
  downloads = 0;

  constructor() {
    this.#server = createServer((request, response) => {
      const archive = this.#packages.get(request.url?.split("/-/")[1] ?? "");
      if (archive === undefined) {
        response.setHeader("content-type", "application/json").end(this.#description());
        return;
      }
      this.downloads++;
      if (this.#onHeld === null) {
        response.end(archive);
        return;
      }
      response.write(archive.subarray(0, 10));
      this.#onHeld();
      this.#onHeld = null;
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.#url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get url(): string {
    return this.#url;
  }

  /** The next download begins and does not end; resolves when it is asked for. */
  hold(): Promise<void> {
    return new Promise((resolve) => {
      this.#onHeld = resolve;
    });
  }

  /** Publishes a version whose `node` command is a shell script with this body. */
  publish(folder: string, version: string, body: string): FixturePackage {
    const made = join(folder, `published-${version}`);
    mkdirSync(join(made, "package"), { recursive: true });
    writeFileSync(join(made, "package", "package.json"), JSON.stringify(manifest(version)));
    writeProgram(join(made, "package", "node"), body);
    const packed = join(made, "package.tgz");
    execFileSync("tar", ["-czf", packed, "-C", made, "package"]);
    const archive = readFileSync(packed);
    const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
    this.#packages.set(`fixture-node-${version}.tgz`, archive);
    this.#integrities.set(version, integrity);
    return { version, integrity };
  }

  #description(): string {
    const versions = [...this.#integrities].map(([version, integrity]) => [
      version,
      {
        ...manifest(version),
        dist: { integrity, tarball: `${this.url}fixture-node/-/fixture-node-${version}.tgz` },
      },
    ]);
    return JSON.stringify({ name: "fixture-node", versions: Object.fromEntries(versions) });
  }
}

function manifest(version: string) {
  return { name: "fixture-node", version, bin: { node: "node" } };
}
