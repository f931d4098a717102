import { expect } from "chai";
import { z } from "zod";
import {
  HOST_AGENT_ERRORS,
  HostAgentError,
  isHostAgentErrorCode,
} from "../../../protocol/host-agent/errors.ts";
import { idempotencyKey, jobId } from "../../../protocol/host-agent/job.ts";
import { COMMON_ERRORS } from "../../../protocol/host-agent/route.ts";
import { ALL_ROUTES, ROUTES } from "../../../protocol/host-agent/routes.ts";

describe("the host-agent's routes", () => {
  it("are called as the table calls them, each on a method and path of its own", () => {
    expect(ALL_ROUTES.map((route) => route.name)).to.deep.equal(Object.keys(ROUTES));
    const places = ALL_ROUTES.map((route) => `${route.method} ${route.path}`);
    expect(new Set(places).size).to.equal(places.length);
  });

  it("are declared whole", () => {
    for (const route of ALL_ROUTES) {
      const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect(Object.keys(route.params.shape), route.name).to.deep.equal(inPath);
      expect(route.path).to.match(/^\/v1\/[a-z0-9{}./-]*[a-z0-9}]$/);
      expect(route.summary).to.match(/^[A-Z].*\.$/);
      expect(route.errors, route.name).to.include(route.failure);
      expect(route.method === "POST", route.name).to.equal(route.body !== null);
      expect(route.upload, route.name).to.equal(route.method === "PUT");
      for (const code of [...COMMON_ERRORS, ...route.errors]) {
        expect(isHostAgentErrorCode(code), code).to.equal(true);
      }
    }
  });

  it("can all be described as JSON Schema", () => {
    for (const { name, params, query, body, result } of ALL_ROUTES) {
      for (const schema of [params, query, body, result]) {
        if (schema !== null) {
          expect(() => z.toJSONSchema(schema, { io: "input" }), name).not.to.throw();
        }
      }
    }
  });

  it("write the monotonic stamp as an integer, whatever its size", () => {
    const { properties } = z.toJSONSchema(ROUTES.systemResources.result);
    expect(properties?.["ts_ns"]).to.include({ type: "integer", format: "int64" });
  });

  it("start without a body exactly where nothing is required", () => {
    const optional = ALL_ROUTES.filter((route) => route.bodyOptional).map((route) => route.name);
    expect(optional).to.have.members([
      "jobCancel",
      "reboot",
      "serviceDisable",
      "serviceEnable",
      "serviceRestart",
      "shutdown",
      "systemUpdate",
      "wifiScan",
    ]);
  });

  it("take an Idempotency-Key of 1 to 128 of its alphabet", () => {
    expect(idempotencyKey.safeParse("a").success).to.equal(true);
    expect(idempotencyKey.safeParse("aZ0_:-".padEnd(128, "x")).success).to.equal(true);
    expect(idempotencyKey.safeParse("").success).to.equal(false);
    expect(idempotencyKey.safeParse("x".repeat(129)).success).to.equal(false);
    expect(idempotencyKey.safeParse("a b").success).to.equal(false);
    expect(jobId.safeParse("j_a4f7b2").success).to.equal(true);
    expect(jobId.safeParse("system-update").success).to.equal(false);
  });
});

describe("the host-agent's errors", () => {
  it("have an HTTP status of failure and a sentence", () => {
    for (const [code, { status, message }] of Object.entries(HOST_AGENT_ERRORS)) {
      expect(code).to.match(/^[a-z]+(-[a-z]+)*$/);
      expect(status).to.be.within(400, 599);
      expect(message).not.to.equal("");
    }
    expect(isHostAgentErrorCode("toString")).to.equal(false);
  });

  it("say code and message and nothing of their cause", () => {
    const failure = new HostAgentError("publish-failed", { cause: new Error("/etc/secret") });
    expect(failure.status).to.equal(500);
    expect(failure.refusal).to.deep.equal({
      code: "publish-failed",
      message: "could not publish the name",
    });
    expect(new HostAgentError("bad-request", { message: "slug is required" }).refusal).to.include({
      message: "slug is required",
    });
  });
});
