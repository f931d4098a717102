import { expect } from "chai";
import { Attempts } from "../../../actors/session/attempts.ts";
import {
  authenticator,
  TOKEN_ATTEMPTS,
  withTokenAttempts,
} from "../../../actors/session/authenticate.ts";
import { spaceOpener } from "../../../actors/session/spaces.ts";
import {
  type HttpServer,
  type HttpServerOptions,
  listenHttp,
} from "../../../gateways/http/server.ts";
import { systemClock } from "../../../host/clock.ts";
import { HTTP_REFUSALS } from "../../../protocol/http.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type LogLines, logLines } from "../../support/log-lines.ts";
import { refusalOf } from "../../support/refusal.ts";
import { RawClient, upgradeRequest } from "../../support/ws-client.ts";

const OPERATOR = "operator-token-of-the-tests-0123456789";
const ACP = "acp-token-of-the-tests-0123456789abcdef";
const OPENAI = "openai-token-of-the-tests-0123456789abc";
const WRONG = "wrong-token-of-the-tests-0123456789abcd";
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe("the spaces of plain HTTP that ask for a token", () => {
  let http: HttpServer;
  let clock: FakeClock;
  let attempts: Attempts;
  let lines: LogLines;

  const open = async (
    environment: Record<string, string> = {},
    options: Partial<HttpServerOptions> = {},
    operatorToken = OPERATOR,
  ): Promise<void> => {
    clock = new FakeClock();
    attempts = new Attempts(clock, TOKEN_ATTEMPTS);
    lines = logLines();
    const { log } = lines;
    http = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log, ...options });
    const opener = spaceOpener({ environment, operatorToken, attempts });
    http.serve(new Map([["/ws", (_request, socket) => void socket.destroy()]]), () => [], opener);
  };
  afterEach(() => http.close(0));

  const ask = async (path: string, headers: Record<string, string> = {}, method = "GET") => {
    const response = await fetch(`http://127.0.0.1:${http.port}${path}`, { method, headers });
    const text = await response.text();
    return {
      status: response.status,
      asks: response.headers.get("www-authenticate"),
      retryAfter: response.headers.get("retry-after"),
      sniff: response.headers.get("x-content-type-options"),
      text,
      error: text === "" ? null : Object(JSON.parse(text)).error,
    };
  };
  const exchange = async (bytes: string): Promise<string> => {
    const client = await RawClient.open(http.port);
    client.socket.write(bytes);
    return client.all();
  };

  it("answer 401 and how to authenticate before they say whether a path exists or takes a method", async () => {
    await open();
    for (const [path, envelope] of [
      ["/acp", "lemon"],
      ["/acp/x", "lemon"],
      ["/acp/ws", "lemon"],
      ["/acp/ws/x", "lemon"],
      ["/v1", "openai"],
      ["/v1/models", "openai"],
      ["/v1/chat/completions?stream=1", "openai"],
    ] as const) {
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
        const answer = await ask(path, {}, method);
        expect(answer.status, `${method} ${path}`).to.equal(401);
        expect(answer.asks, path).to.equal('Bearer realm="lemon"');
        expect(answer.sniff).to.equal("nosniff");
        expect(answer.error.message).to.contain("Authorization: Bearer <token>");
        expect(answer.error.message).to.contain("LEMON_CONTROL_PLANE_OPERATOR_TOKEN");
        expect(Object.keys(answer.error)).to.deep.equal(
          envelope === "lemon" ? ["code", "message"] : ["message", "type"],
        );
        if (envelope === "lemon") expect(answer.error.code).to.equal("UNAUTHORIZED");
        else expect(answer.error.type).to.equal("invalid_request_error");
      }
    }
    expect((await ask("/acp")).error.message).to.contain("LEMON_ACP_API_TOKEN");
    expect((await ask("/v1/x")).error.message).to.contain("LEMON_OPENAI_COMPAT_API_TOKEN");
  });

  it("are those paths to the letter and what is below them, and nothing beside", async () => {
    await open();
    for (const path of [
      "/acpx",
      "/ACP",
      "/v1x",
      "/v11",
      "/V1/models",
      "/%76%31",
      "//v1",
      "/a/v1",
    ]) {
      const answer = await ask(path);
      expect(answer.status, path).to.equal(404);
      expect(answer.error.code).to.equal("NOT_FOUND");
      expect(answer.asks).to.equal(null);
    }
  });

  it("tell a good token that nothing is served there, each in its own envelope", async () => {
    await open();
    for (const path of ["/acp", "/acp/ws", "/acp/x"]) {
      const answer = await ask(path, bearer(OPERATOR));
      expect(answer.status, path).to.equal(404);
      expect(answer.asks).to.equal(null);
      expect(answer.error).to.deep.equal({
        code: "NOT_FOUND",
        message: HTTP_REFUSALS.not_found.message,
      });
    }
    expect((await ask("/v1/models", bearer(OPERATOR))).text).to.equal(
      '{"error":{"message":"Nothing is served here","type":"invalid_request_error"}}',
    );
  });

  it("say of a wrong token that it is one, with the status that existing clients expect", async () => {
    await open();
    for (const [path, status] of [
      ["/acp/ws", 401],
      ["/acp", 403],
      ["/v1/models", 403],
    ] as const) {
      const answer = await ask(path, bearer(WRONG));
      expect(answer.status, path).to.equal(status);
      expect(answer.asks).to.equal('Bearer realm="lemon", error="invalid_token"');
      expect(answer.error.message).to.contain("Authorization: Bearer <token>");
    }
  });

  it("are opened by their own token where one is set, and then by no other", async () => {
    await open({ LEMON_ACP_API_TOKEN: ` ${ACP}\n`, LEMON_OPENAI_COMPAT_TOKEN: OPENAI });
    const statuses = async (path: string) => {
      const found: number[] = [];
      for (const token of [OPERATOR, ACP, OPENAI])
        found.push((await ask(path, bearer(token))).status);
      return found;
    };
    expect(await statuses("/acp")).to.deep.equal([403, 404, 403]);
    expect(await statuses("/v1/models")).to.deep.equal([403, 403, 404]);
    expect(await statuses("/acp/ws")).to.deep.equal([404, 401, 401]);
    await http.close(0);
    const both = { LEMON_OPENAI_COMPAT_API_TOKEN: ACP, LEMON_OPENAI_COMPAT_TOKEN: OPENAI };
    await open(both);
    expect(await statuses("/v1/models")).to.deep.equal([403, 404, 403]);
    await http.close(0);
    await open({ LEMON_ACP_API_TOKEN: "  ", LEMON_OPENAI_COMPAT_API_TOKEN: "" });
    expect(await statuses("/acp")).to.deep.equal([404, 403, 403]);
    expect(await statuses("/v1/x")).to.deep.equal([404, 403, 403]);
  });

  it("take a token from the header alone, in any case of its scheme, and x-api-key where clients send that", async () => {
    await open();
    for (const scheme of ["Bearer", "bearer", "BEARER  "])
      expect((await ask("/acp", { Authorization: `${scheme} ${OPERATOR}` })).status).to.equal(404);
    expect((await ask("/acp", { "x-api-key": OPERATOR })).status).to.equal(404);
    expect((await ask("/v1/models", { "x-api-key": OPERATOR })).status).to.equal(404);
    expect((await ask("/v1/models", { "x-api-key": WRONG })).status).to.equal(403);
    const nothingSent = async (path: string, headers: Record<string, string> = {}) => {
      const { status, asks } = await ask(path, headers);
      expect([status, asks], path).to.deep.equal([401, 'Bearer realm="lemon"']);
    };
    await nothingSent(`/acp?token=${OPERATOR}&access_token=${OPERATOR}`);
    await nothingSent("/acp/ws", { "x-api-key": OPERATOR });
    await nothingSent("/acp", { Cookie: `token=${OPERATOR}` });
    for (const Authorization of ["", "Bearer", "Bearer ", `Basic ${OPERATOR}`, OPERATOR])
      await nothingSent("/acp", { Authorization });
    await nothingSent("/acp", { "x-api-key": " " });
  });

  it("answer HEAD with the headers of GET alone", async () => {
    await open();
    const head = await ask("/v1/models", {}, "HEAD");
    expect([head.status, head.asks, head.text]).to.deep.equal([401, 'Bearer realm="lemon"', ""]);
    expect((await ask("/acp", bearer(OPERATOR), "HEAD")).status).to.equal(404);
  });

  it("answer an upgrade the same way, and close", async () => {
    await open();
    const asked = await exchange(upgradeRequest(http.port, "/acp/ws"));
    expect(asked).to.match(/^HTTP\/1\.1 401 Unauthorized\r\n/);
    expect(asked).to.contain('\r\nWWW-Authenticate: Bearer realm="lemon"\r\n');
    expect(asked).to.contain("\r\nConnection: close\r\n");
    expect(asked).to.match(/\r\n\r\n\{"error":\{"code":"UNAUTHORIZED",/);
    expect(await exchange(upgradeRequest(http.port, "/acp/ws", bearer(WRONG)))).to.contain(
      'error="invalid_token"',
    );
    expect(await exchange(upgradeRequest(http.port, "/acp/ws", bearer(OPERATOR)))).to.match(
      /^HTTP\/1\.1 404 /,
    );
  });

  it("hear so many wrong tokens of an address, then 429 until there is one more, and a right one always", async () => {
    await open();
    for (let n = 0; n < TOKEN_ATTEMPTS.burst; n += 1)
      expect((await ask("/acp", bearer(WRONG))).status, String(n)).to.equal(403);
    for (const [path, key] of [
      ["/acp", "code"],
      ["/acp/ws", "code"],
      ["/v1/x", "type"],
    ] as const) {
      const answer = await ask(path, bearer(WRONG));
      expect([answer.status, answer.retryAfter, answer.asks]).to.deep.equal([429, "1", null]);
      expect(answer.error).to.have.property(key);
    }
    expect((await ask("/acp")).status).to.equal(401);
    expect((await ask("/acp", bearer(OPERATOR))).status).to.equal(404);
    await clock.advance(TOKEN_ATTEMPTS.refillMs);
    expect((await ask("/acp", bearer(WRONG))).status).to.equal(403);
    expect((await ask("/acp", bearer(WRONG))).status).to.equal(429);
  });

  it("hear not even the right token before the wait is over where it might be guessed", async () => {
    await open({ LEMON_ACP_API_TOKEN: "short" });
    for (let n = 0; n < TOKEN_ATTEMPTS.burst; n += 1) await ask("/acp", bearer(WRONG));
    expect((await ask("/acp", bearer("short"))).status).to.equal(429);
    expect((await ask("/acp/ws", bearer(OPERATOR))).status).to.equal(404);
    await clock.advance(TOKEN_ATTEMPTS.refillMs);
    expect((await ask("/acp", bearer("short"))).status).to.equal(404);
  });

  it("share their guesses with connect", async () => {
    await open();
    for (let n = 0; n < TOKEN_ATTEMPTS.burst; n += 1) await ask("/v1/x", bearer(WRONG));
    const authenticate = withTokenAttempts(
      authenticator({
        operatorToken: OPERATOR,
        sessionTokens: { identify: async () => null },
        allowUnauthenticatedLoopback: false,
      }),
      attempts,
      { operatorToken: OPERATOR },
    );
    const credentials = { role: undefined, clientId: null, directLoopback: true };
    const remoteAddress = "127.0.0.1";
    const refusal = await refusalOf(() =>
      authenticate({ ...credentials, remoteAddress, token: WRONG }),
    );
    expect(refusal.code).to.equal("rate_limited");
  });

  it("count guesses by the caller that a trusted proxy names, and refuse one that it names twice", async () => {
    await open({}, { trustedProxies: [{ address: "127.0.0.1", prefix: 32 }] });
    const from = (address: string) => ({ ...bearer(WRONG), "X-Forwarded-For": address });
    for (let n = 0; n < TOKEN_ATTEMPTS.burst; n += 1) await ask("/acp", from("192.0.2.1"));
    expect((await ask("/acp", from("192.0.2.1"))).status).to.equal(429);
    expect((await ask("/acp", from("192.0.2.2"))).status).to.equal(403);
    const twice = { ...from("192.0.2.1"), Forwarded: "for=192.0.2.9" };
    expect((await ask("/acp", twice)).status).to.equal(400);
  });

  it("write no token and no path in the log", async () => {
    await open();
    for (const token of [OPERATOR, WRONG])
      for (const path of ["/acp", "/v1/s3cr3t"]) await ask(`${path}?token=${token}`, bearer(token));
    expect(lines.text()).to.not.match(/token-of-the-tests|s3cr3t/);
  });

  it("are closed to everybody until their tokens are known", async () => {
    await open();
    http.serve(new Map());
    expect((await ask("/acp", bearer(OPERATOR))).status).to.equal(403);
    const { log } = lines;
    const starting = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log });
    try {
      const response = await fetch(`http://127.0.0.1:${starting.port}/v1/models`);
      expect(response.status).to.equal(503);
      expect(Object(await response.json()).error.type).to.equal("server_error");
    } finally {
      await starting.close(0);
    }
  });
});
