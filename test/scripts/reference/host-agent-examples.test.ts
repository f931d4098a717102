/**
 * Proves the examples of the host-agent's reference: each command line is read by a shell and sent to a fake
 * host-agent, in the order of the page, and each answer is one of its declaration, as the one in the page is.
 */
import { execFileSync } from "node:child_process";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import { EXAMPLE_JOB } from "../../../scripts/reference/host-agent-examples.ts";
import { curlOf, exampleOf, ROUTES_IN_ORDER } from "../../../scripts/reference/host-agent-page.ts";
import { RoleProcess } from "../../support/role-process.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

interface CommandLine {
  readonly socketPath: string;
  readonly method: string;
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly body: string | undefined;
}

describe("an example of the host-agent's reference", () => {
  let folder: TempFolder;
  let role: RoleProcess;
  let socket: string;
  let lines: ReadonlyMap<string, CommandLine>;
  const open: IncomingMessage[] = [];
  /** Streams whose first event is brought about by a later example. */
  const awaited: Promise<void>[] = [];
  let job = EXAMPLE_JOB;

  before(async () => {
    folder = tempFolder();
    socket = join(folder.path, "agent.sock");
    role = new RoleProcess(["host-agent", "--fake", "--socket", socket], {
      home: join(folder.path, "home"),
    });
    lines = await readByShell(socket);
    await role.said("ready");
  });
  after(async () => {
    for (const stream of open) stream.destroy();
    await role.end("SIGTERM");
    folder[Symbol.dispose]();
  });

  for (const spec of ROUTES_IN_ORDER) {
    it(`of ${spec.name} is sent as it stands there, and answered as it is declared`, async () => {
      const { result } = exampleOf(spec);
      if (spec.stream !== "octets") expect(spec.result.parse(result)).to.deep.equal(result);
      const line = lines.get(spec.name);
      if (line === undefined) throw new Error("no command line");
      const path = line.url.pathname.replace(EXAMPLE_JOB, job) + line.url.search;
      const response = await sent(line, path);
      expect(response.statusCode).to.equal(spec.status);
      if (spec.stream === "sse") {
        open.push(response);
        const event = firstEvent(response).then((data) => {
          expect(spec.result.parse(data)).to.deep.equal(data);
        });
        if (spec.name === "networkEvents") awaited.push(event);
        else await event;
        return;
      }
      const text = (await response.toArray()).join("");
      if (spec.stream === "octets") {
        expect(text).to.equal("the bytes of img.jpg");
        return;
      }
      const answer = JSON.parse(text);
      expect(spec.result.parse(answer)).to.deep.equal(answer);
      if (spec.name === "systemUpdate") job = Object(answer).job_id;
    });
  }

  it("of a stream of events has its first event by what the others did", async () => {
    expect(awaited).to.have.length(1);
    await Promise.all(awaited);
  });
});

/** Each command line's words, as a shell makes them; one shell for all. */
async function readByShell(socket: string): Promise<ReadonlyMap<string, CommandLine>> {
  const script = [
    `curl() { printf '%s\\0' "$@"; printf '\\n'; }`,
    ...ROUTES_IN_ORDER.map(curlOf),
  ].join("\n");
  const said = execFileSync("sh", ["-e"], {
    input: script,
    env: { PATH: process.env["PATH"], SOCKET: socket },
    encoding: "utf8",
  });
  const words = said.trimEnd().split("\n");
  return new Map(
    ROUTES_IN_ORDER.map(({ name }, index) => [name, asCurl(words[index]?.split("\0") ?? [])]),
  );
}

/** As curl(1) reads its command line; a word that it does not know is no command line of ours. */
function asCurl(words: readonly string[]): CommandLine {
  let socketPath = "";
  let method: string | undefined;
  let body: string | undefined;
  let url: URL | undefined;
  const headers: Record<string, string> = {};
  const left = words.filter((word) => word !== "");
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    if (word === "-N") continue;
    if (word.startsWith("http://")) {
      url = new URL(word);
      continue;
    }
    const value = left.shift() ?? "";
    if (word === "--unix-socket") socketPath = value;
    else if (word === "-X") method = value;
    else if (word === "-d") {
      body = value;
      method ??= "POST";
      headers["Content-Type"] = "application/x-www-form-urlencoded";
    } else if (word === "-T") {
      body = `the bytes of ${value}`;
      method ??= "PUT";
    } else if (word === "-H") {
      const [name = "", said = ""] = value.split(": ");
      headers[name] = said;
    } else if (word !== "-o") throw new Error(`${word} is no option of these examples`);
  }
  if (url === undefined) throw new Error("a command line without a URL");
  return { socketPath, method: method ?? "GET", url, headers, body };
}

function sent({ socketPath, method, headers, body }: CommandLine, path: string) {
  return new Promise<IncomingMessage>((resolve, reject) => {
    const length = body === undefined ? {} : { "Content-Length": Buffer.byteLength(body) };
    const options = { socketPath, method, path, headers: { ...headers, ...length }, agent: false };
    httpRequest(options, (response) => resolve(response.setEncoding("utf8")))
      .once("error", reject)
      .end(body);
  });
}

async function firstEvent(response: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of response.iterator({ destroyOnReturn: false })) {
    text += chunk;
    const data = /^data: (.*)\n\n/m.exec(text)?.[1];
    if (data !== undefined) return JSON.parse(data);
  }
  throw new Error("the stream ended without an event");
}
