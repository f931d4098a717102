import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { startUnixHttp, type TestGateway } from "../../support/unix-http.ts";

describe("the host-agent's gateway", () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startUnixHttp({
      host: (host) => ({
        ...host,
        facts: {
          ...host.facts,
          status: () => host.facts.status(),
          gpu: () => host.facts.gpu(),
          resources: async () => ({ ...(await host.facts.resources()), ts_ns: 2n ** 63n - 1n }),
        },
        discovery: {
          ...host.discovery,
          publish: (slug) =>
            slug === "broken"
              ? Promise.reject(new Error("/var/run/avahi-daemon/socket: no such file"))
              : slug === "taken"
                ? Promise.reject(new HostAgentError("hostname-conflict"))
                : Promise.reject(new LemonError("mailbox_full")),
          unpublish: (slug) => host.discovery.unpublish(slug),
          state: () => host.discovery.state(),
        },
      }),
    });
  });
  after(() => gateway[Symbol.asyncDispose]());

  it("answers in JSON with a newline, its length and no charset", async () => {
    const { status, headers, text } = await gateway.ask("GET", "/v1/identity/well-known");
    expect(status).to.equal(200);
    expect(text).to.equal('{"malmo_app_uid":2000,"malmo_app_gid":2000,"malmo_shared_gid":2001}\n');
    expect(headers["content-type"]).to.equal("application/json");
    expect(headers["content-length"]).to.equal(String(text.length));
  });

  it("answers a read that asks nothing the same, whether the router is asked or not", async () => {
    const plain = await gateway.ask("GET", "/v1/system/gpu");
    for (const request of [{ body: "{}" }, { headers: { "Content-Type": ";" } }, {}]) {
      const routed = await gateway.ask("GET", "/v1/system/gpu?x=1", request);
      expect(routed.text).to.equal(plain.text);
      expect({ ...routed.headers, date: "" }).to.deep.equal({ ...plain.headers, date: "" });
    }
    expect((await gateway.ask("GET", "/v1/system/gpu", { body: "{}" })).text).to.equal(plain.text);
  });

  it("writes integers as integers, above 2^53 as well", async () => {
    const { text } = await gateway.ask("GET", "/v1/system/resources");
    expect(text).to.include('"ts_ns":9223372036854775807,');
  });

  it("escapes what could mean something to a page", async () => {
    const user = { user: "alex", password: "x" };
    expect((await gateway.post("/v1/auth/set-password", user)).text).to.equal("{}\n");
    const files = { user: "alex", root: "home", path: "<a>&\u2028.txt" };
    await gateway.post("/v1/files/mkdir", files);
    const { text } = await gateway.post("/v1/files/stat", files);
    expect(text).to.include('"name":"\\u003ca\\u003e\\u0026\\u2028.txt"');
  });

  it("reads the first value of a body, whatever its type says, and passes over what it does not know", async () => {
    const target = "/v1/auth/set-role";
    const role = { user: "alex", role: "admin", more: [1], nothing: null };
    const bodies = [
      JSON.stringify(role),
      ` \n${JSON.stringify(role)} and more {`,
      `${JSON.stringify({ ...role, user: 'a"}lex{' }).replace('a\\"}lex{', "alex")}\n`,
    ];
    for (const body of bodies) {
      for (const type of ["application/json", "text/plain", "not a type", ";;;", ""]) {
        const headers = type === "" ? {} : { "Content-Type": type };
        const answer = await gateway.ask("POST", target, { body, headers });
        expect(answer.text, `${type} ${body}`).to.equal("{}\n");
      }
    }
  });

  it("refuses a body that is no object of the expected types as bad-json", async () => {
    for (const body of [
      "",
      " ",
      "{",
      "nope",
      "[]",
      "1",
      '"x"',
      '{"user":1}',
      '{"user":{}}',
      "[1] {}",
    ]) {
      const answer = await gateway.ask("POST", "/v1/auth/set-role", { body });
      expect(answer.status, body).to.equal(400);
      expect(answer.json, body).to.include({ code: "bad-json" });
    }
    const empty = await gateway.ask("POST", "/v1/auth/verify-password", { body: "" });
    expect(empty.json).to.deep.equal({ code: "bad-json", message: "EOF" });
    const choice = { connection_id: "ethernet-1", ipv4: { mode: 5 } };
    const mode = await gateway.post("/v1/network/connection/configure-ip", choice);
    expect(mode.json).to.deep.equal({
      code: "bad-json",
      message: "ipv4.mode is of the wrong type",
    });
    const fraction = await gateway.post("/v1/identity/app-service/release", { uid: 2100.5 });
    expect(fraction.json).to.include({ code: "bad-json" });
  });

  it("takes null for what is left out, however deep it lies", async () => {
    const target = "/v1/network/connection/configure-ip";
    const ipv4 = { mode: "static", address: "10.0.0.2/24", gateway: "", dns: null };
    const answer = await gateway.post(target, { connection_id: "ethernet-1", ipv4 });
    expect(answer.text).to.equal("{}\n");
    const { json } = await gateway.ask("GET", "/v1/network/state");
    expect(json).to.have.nested.property("ipv4.ethernet-1.dns").that.deep.equals([]);
    const to = { root: "home", path: "b" };
    const root = await gateway.post("/v1/files/copy", {
      user: "a",
      from: { ...to, path: null },
      to,
    });
    expect(root.json).to.include({ code: "bad-path" });
    const list = await gateway.post(target, {
      connection_id: "ethernet-1",
      ipv4: { ...ipv4, dns: [null] },
    });
    expect(list.status).to.equal(400);
  });

  it("refuses what is missing or unacceptable with the sentence of its declaration", async () => {
    const cases: readonly [string, unknown, string][] = [
      ["/v1/auth/set-password", { user: "a" }, "user and password are required"],
      ["/v1/auth/set-password", null, "user and password are required"],
      ["/v1/auth/set-role", { role: "king" }, "user is required"],
      ["/v1/auth/set-role", { user: "a", role: "king" }, "role must be admin or member"],
      ["/v1/auth/set-role", { user: "a", role: null }, "role must be admin or member"],
      ["/v1/auth/delete-user", {}, "user is required"],
      ["/v1/files/move", { user: "a", from: null }, "from is required"],
      ["/v1/system/set-timezone", { zone: "" }, "zone is required"],
      ["/v1/discovery/publish", {}, "slug is required"],
      ["/v1/identity/app-service", {}, "instance_id is required"],
      ["/v1/identity/app-service/release", {}, "uid outside the app-service band"],
      ["/v1/identity/app-service/release", { uid: 2099 }, "uid outside the app-service band"],
      ["/v1/identity/app-service/release", { uid: 3000 }, "uid outside the app-service band"],
      [
        "/v1/network/connection/configure-ip",
        { connection_id: "x" },
        "ipv4.mode must be dhcp or static",
      ],
    ];
    for (const [target, body, message] of cases) {
      const { status, json } = await gateway.post(target, body);
      expect(status, target).to.equal(400);
      expect(json, target).to.deep.equal({ code: "bad-request", message });
    }
    for (const uid of [2100, 2999]) {
      expect((await gateway.post("/v1/identity/app-service/release", { uid })).status).to.equal(
        200,
      );
    }
  });

  it("takes no body for an empty object where nothing is required", async () => {
    expect((await gateway.ask("POST", "/v1/network/wifi/scan")).status).to.equal(200);
    expect((await gateway.ask("POST", "/v1/services/ssh/restart")).json).to.deep.equal({
      enabled: true,
      running: true,
    });
  });

  it("verifies a password with yes or no, and nothing else", async () => {
    await gateway.post("/v1/auth/set-password", { user: "cindy", password: "pässword" });
    const verify = async (body: unknown) =>
      (await gateway.post("/v1/auth/verify-password", body)).json;
    expect(await verify({ user: "cindy", password: "pässword" })).to.deep.equal({ valid: true });
    expect(await verify({ user: "cindy", password: "x" })).to.deep.equal({ valid: false });
    expect(await verify({ user: "nobody" })).to.deep.equal({ valid: false });
    expect(await verify({})).to.deep.equal({ valid: false });
  });

  it("says 404 of what it does not serve, and 405 with Allow of a method it does not", async () => {
    for (const target of [
      "/",
      "/v1",
      "/v1/system/status/",
      "/v2/system/status",
      "//v1/system/status",
      "/v1//system/status",
      "/v1/system/../system/status",
      "/v1/nothing?x=1",
      "*",
    ]) {
      const { status, json } = await gateway.ask("GET", target);
      expect(status, target).to.equal(404);
      expect(json, target).to.deep.equal({ code: "not-found", message: "not found" });
    }
    const wrong: readonly [string, string, string][] = [
      ["POST", "/v1/system/status", "GET, HEAD"],
      ["DELETE", "/v1/jobs/j_1", "GET, HEAD"],
      ["POST", "/v1/jobs/anything-else", "GET, HEAD"],
      ["GET", "/v1/auth/set-role", "POST"],
      ["PATCH", "/v1/files/content", "GET, HEAD, PUT"],
      ["PROPFIND", "/v1/system/gpu", "GET, HEAD"],
      ["OPTIONS", "/v1/jobs/j_1/cancel", "POST"],
      ["GET", "/v1/services/ssh/enable?x", "POST"],
      ["GET", "/v1/jobs/enroll-drive/cancel", "POST"],
    ];
    for (const [method, target, allow] of wrong) {
      const { status, headers, json } = await gateway.ask(method, target);
      expect(status, target).to.equal(405);
      expect(headers.allow, target).to.equal(allow);
      expect(json, target).to.include({ code: "method-not-allowed" });
    }
  });

  it("reads a start's name as a job where only a job can be meant", async () => {
    const { status, json } = await gateway.ask("GET", "/v1/jobs/system-update");
    expect(status).to.equal(404);
    expect(json).to.deep.equal({ code: "unknown-job", message: "no such job" });
  });

  it("answers HEAD as GET, without the body", async () => {
    const { status, headers, text } = await gateway.ask("HEAD", "/v1/system/gpu");
    expect({ status, text }).to.deep.equal({ status: 200, text: "" });
    expect(headers["content-length"]).to.equal("51");
    const stream = await gateway.ask("HEAD", "/v1/network/events");
    expect(stream.headers["content-type"]).to.equal("text/event-stream");
    expect((await gateway.ask("HEAD", "/v1/nothing")).status).to.equal(404);
  });

  it("decodes a segment once, and refuses one that can not be", async () => {
    expect((await gateway.ask("GET", "/v1/users/%61lex/home")).status).to.equal(200);
    for (const name of [
      "a%2Fb",
      "a%00",
      "%252e",
      "..%2f..%2fetc",
      "%E2%80%A8",
      "x".repeat(5_000),
    ]) {
      const { status, json } = await gateway.ask("GET", `/v1/users/${name}/home`);
      expect(status, name).to.equal(404);
      expect(json, name).to.include({ code: "unknown-user" });
    }
    for (const name of ["%zz", "%", "%E0%A4%A"]) {
      const { status, json } = await gateway.ask("GET", `/v1/users/${name}/home`);
      expect(status, name).to.equal(400);
      expect(json, name).to.include({ code: "bad-request" });
    }
  });

  it("tells a declared failure by its code, and any other by the route's, without a word of the host", async () => {
    const publish = (slug: string) => gateway.post("/v1/discovery/publish", { slug });
    const broken = await publish("broken");
    expect(broken.status).to.equal(500);
    expect(broken.json).to.deep.equal({
      code: "publish-failed",
      message: "could not publish the name",
    });
    expect((await publish("taken")).json).to.include({ code: "hostname-conflict" });
    expect((await publish("full")).status).to.equal(503);
    const lines = gateway.log.lines.filter(({ msg }) => msg === "a request failed");
    expect(lines.map(({ route, code }) => ({ route, code }))).to.deep.equal([
      { route: "discoveryPublish", code: "Error" },
    ]);
    expect(gateway.log.text()).not.to.include("avahi-daemon");
  });

  it("checks an Idempotency-Key before it starts anything", async () => {
    const ask = (key: string) =>
      gateway.ask("POST", "/v1/system/reboot", { headers: { "Idempotency-Key": key } });
    expect((await ask("x".repeat(129))).json).to.deep.equal({
      code: "bad-request",
      message: "Idempotency-Key must be 1 to 128 of letters, digits, _, : and -",
    });
    expect((await ask("x".repeat(128))).json).to.include({ code: "unavailable" });
  });

  it("logs no password and no path of anybody", async () => {
    await gateway.post("/v1/auth/set-password", { user: "dora", password: "canary-secret-1" });
    await gateway.post("/v1/network/wifi/connect", { ssid: "Malmo Home", password: "canary-2" });
    await gateway.ask("GET", "/v1/files/content?user=dora&root=home&path=canary-3");
    expect(gateway.log.text()).not.to.match(/canary|dora/);
  });
});
