import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import {
  type ListenTarget,
  openSocketPlace,
  type SocketPlace,
} from "../../../gateways/unix-http/socket.ts";
import { peerCredentials } from "../../../host/peer-credentials.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the place of the host-agent's socket", () => {
  let folder: TempFolder;
  let path: string;
  const servers: Server[] = [];
  const children: ChildProcess[] = [];
  beforeEach(() => {
    folder = tempFolder();
    path = join(folder.path, "run", "agent.sock");
  });
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
    for (const child of children.splice(0)) child.kill("SIGKILL");
    folder[Symbol.dispose]();
  });

  function serve(onMade: () => void = () => {}) {
    const server = createServer((socket) => socket.on("error", () => {}).end("here"));
    servers.push(server);
    return async (target: ListenTarget): Promise<void> => {
      const listening = once(server, "listening");
      server.listen(target);
      onMade();
      await listening;
    };
  }

  const open = (changes: Partial<SocketPlace> = {}, listen = serve()) =>
    openSocketPlace({ path, gid: null, closedFolder: true, ...changes }, listen);

  it("is a socket of mode 0660 in a folder of mode 0750, whatever the mask, and never wider before", async () => {
    const mask = process.umask(0);
    try {
      let first = 0;
      const place = await open(
        {},
        serve(() => {
          expect(existsSync(path)).to.equal(false);
          first = lstatSync(`${path}.new`).mode & 0o777;
        }),
      );
      expect(first).to.equal(0o600);
      expect(lstatSync(path).isSocket()).to.equal(true);
      expect(lstatSync(path).mode & 0o777).to.equal(0o660);
      expect(statSync(join(folder.path, "run")).mode & 0o777).to.equal(0o750);
      expect(process.umask()).to.equal(0);
      place[Symbol.dispose]();
      expect(existsSync(path)).to.equal(false);
    } finally {
      process.umask(mask);
    }
  });

  it("belongs to its group, folder and socket, or is refused to one who may not give it away", async () => {
    if (process.getuid?.() === 0) {
      using _place = await open({ gid: 12_345 });
      expect(lstatSync(path).gid).to.equal(12_345);
      expect(statSync(join(folder.path, "run")).gid).to.equal(12_345);
    } else {
      expect((await refusalOf(() => open({ gid: 12_345 }))).code).to.equal("group_unusable");
    }
  });

  it("is refused while another process serves it, before anything is touched", async () => {
    using _place = await open();
    expect((await refusalOf(() => open())).code).to.equal("socket_in_use");
    expect(lstatSync(path).isSocket()).to.equal(true);
  });

  it("is refused to one who finds somebody answering there who holds no lock", async () => {
    mkdirSync(join(folder.path, "run"), { mode: 0o750 });
    await serve()({ path });
    expect((await refusalOf(() => open())).code).to.equal("socket_in_use");
  });

  it("is taken over from a process that was killed", async () => {
    mkdirSync(join(folder.path, "run"), { mode: 0o750 });
    const program = `require("net").createServer().listen(process.argv[1], () => console.log("up"))`;
    const child = spawn(process.execPath, ["-e", program, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    if (child.stdout === null) throw new Error("no stdout");
    await once(child.stdout, "data");
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(lstatSync(path).isSocket()).to.equal(true);
    using _place = await open();
    expect(lstatSync(path).mode & 0o777).to.equal(0o660);
  });

  it("is never made by removing what is no socket", async () => {
    mkdirSync(join(folder.path, "run"), { mode: 0o750 });
    writeFileSync(path, "precious");
    const refusal = await refusalOf(() => open());
    expect(refusal.code).to.equal("socket_refused");
    expect(refusal.message).to.include("no socket has the name agent.sock");
    expect(readFileSync(path, "utf8")).to.equal("precious");
  });

  it("is refused in a folder that others may enter or write in, and where the way is none", async () => {
    const run = join(folder.path, "run");
    mkdirSync(run);
    chmodSync(run, 0o755);
    expect((await refusalOf(() => open())).message).to.include("chmod 750");
    (await open({ closedFolder: false }))[Symbol.dispose]();
    chmodSync(run, 0o770);
    const refusal = await refusalOf(() => open({ closedFolder: false }));
    expect(refusal.message).to.include("others may write");
    chmodSync(run, 0o1777);
    (await open({ closedFolder: false }))[Symbol.dispose]();
    const missing = await refusalOf(() => open({ path: join(folder.path, "a", "b", "c.sock") }));
    expect(missing.message).to.include("folder above its own is missing");
    writeFileSync(join(folder.path, "file"), "");
    const through = await refusalOf(() => open({ path: join(folder.path, "file", "c.sock") }));
    expect(through.code).to.equal("socket_refused");
  });

  it("leaves what has its name by now", async () => {
    const place = await open();
    unlinkSync(path);
    writeFileSync(path, "somebody's");
    place.withdraw();
    for (const server of servers.splice(0)) await new Promise((done) => server.close(done));
    place[Symbol.dispose]();
    expect(readFileSync(path, "utf8")).to.equal("somebody's");
  });

  it("has a path of at most 103 bytes", async () => {
    const name = "s".repeat(103 - folder.path.length - 1);
    const longest = join(folder.path, name);
    (await open({ path: longest, closedFolder: false }))[Symbol.dispose]();
    const refusal = await refusalOf(() => open({ path: `${longest}s`, closedFolder: false }));
    expect(refusal.message).to.include("103 bytes");
  });

  it("lets the lock go when the listener fails", async () => {
    const failing = () => Promise.reject(Object.assign(new Error("no"), { code: "EACCES" }));
    expect((await refusalOf(() => open({}, failing))).message).to.include("may not write");
    (await open())[Symbol.dispose]();
  });

  it("tells who connected", async () => {
    using _place = await open();
    const [server] = servers;
    if (server === undefined) throw new Error("it serves");
    const connected = once(server, "connection");
    const program = `require("net").connect(process.argv[1]).on("error", () => {})`;
    const child = spawn(process.execPath, ["-e", program, path]);
    children.push(child);
    const [socket] = await connected;
    expect(peerCredentials(socket)).to.deep.equal({
      pid: child.pid,
      uid: process.getuid?.(),
      gid: process.getgid?.(),
    });
    socket.destroy();
    await once(socket, "close");
    expect(peerCredentials(socket)).to.equal(null);
  });
});
