/**
 * An npm registry on loopback, for packages with nothing in them but a program that passes for a
 * Node.js. It counts what it serves, and can be told to leave a download half answered.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { writeProgram } from "./fake-nats-server.ts";

export interface FixturePackage {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
  /** Whether npm is told to link the program as a command. */
  readonly bin: { readonly node: string } | undefined;
}

export class NpmRegistry {
  readonly #server: Server;
  readonly #archives = new Map<string, Buffer>();
  readonly #published: FixturePackage[] = [];
  /** Told when the download to be held is asked for. */
  #onHeld: (() => void) | null = null;
  #url = "";
  /** Downloads begun so far. */
  downloads = 0;

  constructor() {
    this.#server = createServer((request, response) => {
      const archive = this.#archives.get(request.url ?? "");
      if (archive === undefined) {
        response
          .setHeader("content-type", "application/json")
          .end(this.#describe(request.url ?? ""));
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

  /** Publishes a package whose `bin/node` is a shell script with this body. */
  publish(
    folder: string,
    version: string,
    body: string,
    { name = "fixture-node", isCommand = true } = {},
  ): FixturePackage {
    const bin = isCommand ? { node: "bin/node" } : undefined;
    const made = join(folder, `published-${name}-${version}`);
    mkdirSync(join(made, "package"), { recursive: true });
    writeFileSync(join(made, "package", "package.json"), JSON.stringify({ name, version, bin }));
    writeProgram(join(made, "package", "bin", "node"), body);
    const packed = join(made, "package.tgz");
    execFileSync("tar", ["-czf", packed, "-C", made, "package"]);
    const archive = readFileSync(packed);
    const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
    const published = { name, version, integrity, bin };
    this.#archives.set(pathOf(published), archive);
    this.#published.push(published);
    return published;
  }

  #describe(path: string): string {
    const name = path.slice(1);
    const versions = this.#published
      .filter((published) => published.name === name)
      .map(({ integrity, ...published }) => {
        const tarball = new URL(pathOf(published), this.#url).href;
        return [published.version, { ...published, dist: { integrity, tarball } }];
      });
    return JSON.stringify({ name, versions: Object.fromEntries(versions) });
  }
}

function pathOf({ name, version }: Pick<FixturePackage, "name" | "version">): string {
  return `/${name}/-/${name}-${version}.tgz`;
}
