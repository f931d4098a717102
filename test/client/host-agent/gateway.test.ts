/** Proves that the client, the reconciler and the real gateway speak the same language, in front of the fake host. */
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect } from "chai";
import { HostAgent } from "../../../client/host-agent/index.ts";
import { Reconciler } from "../../../client/reconciler/index.ts";
import { ALL_ROUTES, ROUTES } from "../../../protocol/host-agent/routes.ts";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

describe("the client in front of the real gateway", () => {
  let gateway: TestGateway;
  let host: HostAgent;

  before(async () => {
    gateway = await startUnixHttp();
    host = new HostAgent({ socketPath: gateway.path });
  });
  after(async () => {
    host.close();
    await gateway[Symbol.asyncDispose]();
  });

  it("gets from every route that only reads what the route declares", async () => {
    const reads = ALL_ROUTES.filter(
      ({ method, stream, path }) => method === "GET" && stream === null && !path.includes("{"),
    );
    expect(reads).to.have.length.above(8);
    for (const { name, result } of reads) {
      const answer = await host.call(name as "systemStatus");
      expect(result.safeParse(answer).success, name).to.equal(true);
    }
  });

  it("makes a person, their files, and takes both away", async () => {
    await host.call("setPassword", { body: { user: "alex", password: "canary" } });
    const verify = (password: string) =>
      host.call("verifyPassword", { body: { user: "alex", password } });
    expect([await verify("canary"), await verify("other")]).to.deep.equal([
      { valid: true },
      { valid: false },
    ]);
    const query = { user: "alex", root: "home", path: "päper & more" } as const;
    const pieces = Array.from({ length: 64 }, (_, n) => Buffer.alloc(65_536, n));
    await host.upload(query, Readable.from(pieces));
    const { size_bytes } = await host.call("filesStat", { body: query });
    expect(size_bytes).to.equal(4_194_304);
    const chunks: Buffer[] = [];
    for await (const chunk of await host.download(query)) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(Buffer.concat(pieces))).to.equal(true);
    await host.call("deleteUser", { body: { user: "alex" } });
    expect((await verify("canary")).valid).to.equal(false);
  });

  it("follows a container from its last lines on", async () => {
    const seen: string[] = [];
    for await (const { id } of host.stream("journalFollow", { query: { container: "c" } })) {
      seen.push(id);
      if (seen.length === 2) break;
    }
    expect(seen).to.deep.equal(["1", "2"]);
  });

  it("brings every kind of setting into effect", async () => {
    await host.call("setPassword", { body: { user: "kim", password: "x" } });
    const { network } = await host.call("stateSummary");
    const [connection = ""] = Object.keys(network.connections);
    const reconciler = new Reconciler({ path: join(gateway.folder, "brain.db"), host });
    const reports = [
      await reconciler.set("services/samba", { enabled: true }),
      await reconciler.set("discovery/photos", { published: true }),
      await reconciler.set("network/primary", connection),
      await reconciler.set(`network/connections/${connection}`, {
        mode: "static",
        address: "192.0.2.7/24",
        gateway: "192.0.2.1",
        dns: ["192.0.2.53"],
      }),
      await reconciler.set("users/kim", { role: "admin" }),
      await reconciler.set("time/zone", "Europe/Stockholm"),
      await reconciler.set("host/hostname", "attic"),
    ];
    expect(reports.map(({ key, state }) => [key, state])).to.deep.equal(
      reports.map(({ key }) => [key, "in_effect"]),
    );
    await host.call("serviceDisable", { params: { name: "samba" }, body: {} });
    const { settings } = await reconciler.pass();
    const drifted = settings.filter(({ state }) => state === "drift").map(({ key }) => key);
    expect(drifted).to.deep.equal(["services/samba"]);
    await reconciler.close();
    expect(ROUTES.stateSummary.path).to.equal("/v1/state/summary");
  });
});
