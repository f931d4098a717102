import { expect } from "chai";
import { type DoorFlags, doorOptions } from "../../cli/door-options.ts";
import { refusalOf } from "../support/refusal.ts";
import { TestShell } from "../support/test-shell.ts";

describe("how a controller's port stands open", () => {
  const options = (flags: DoorFlags, environment: Readonly<Record<string, string>> = {}) =>
    doorOptions(new TestShell({ environment, cwd: "/where/the/user/stands" }), flags);

  it("is without TLS, believing no proxy and letting in no other page, when nothing is said", () => {
    expect(options({})).to.deep.equal({ tls: null, trustedProxies: [], allowedOrigins: [] });
  });

  it("takes a certificate and its key, from flags or variables, wherever they lie", () => {
    const environment = { LEMON_TLS_CERT: "/etc/cert.pem", LEMON_TLS_KEY: "key.pem" };
    expect(options({}, environment).tls).to.deep.equal({
      certFile: "/etc/cert.pem",
      keyFile: "/where/the/user/stands/key.pem",
    });
    expect(options({ tlsCert: "a", tlsKey: "/b" }, environment).tls).to.deep.equal({
      certFile: "/where/the/user/stands/a",
      keyFile: "/b",
    });
  });

  it("takes lists from repeated flags, or from a variable with commas; the flags go before", () => {
    const environment = {
      LEMON_TRUSTED_PROXIES: "10.0.0.0/8, fd00::/8,192.0.2.1",
      LEMON_ALLOWED_ORIGINS: "https://a.example,http://B.example:80/",
    };
    expect(options({}, environment)).to.deep.include({
      trustedProxies: [
        { address: "10.0.0.0", prefix: 8 },
        { address: "fd00::", prefix: 8 },
        { address: "192.0.2.1", prefix: 32 },
      ],
      allowedOrigins: ["https://a.example", "http://b.example"],
    });
    const flags = { trustedProxy: ["::1"], allowedOrigin: ["app://x"] };
    expect(options(flags, environment)).to.deep.include({
      trustedProxies: [{ address: "::1", prefix: 128 }],
      allowedOrigins: ["app://x"],
    });
  });

  const wrong: readonly [string, DoorFlags, Record<string, string>, RegExp][] = [
    ["a certificate alone", { tlsCert: "a" }, {}, /both a certificate \(--tls-cert\) and its key/],
    ["a key alone", { tlsKey: "a" }, {}, /both a certificate/],
    ["a key alone in the environment", {}, { LEMON_TLS_KEY: "a" }, /both a certificate/],
    ["a certificate without a name", { tlsCert: " ", tlsKey: "a" }, {}, /both a certificate/],
    ...[
      "proxy",
      "10.0.0.0/33",
      "10.0.0.1/8",
      "0.0.0.0/0",
      "::/0",
      "10.0.0",
      "",
      "::ffff:10.0.0.0/104",
    ].map((network): [string, DoorFlags, Record<string, string>, RegExp] => [
      `the proxy ${network || "without an address"}`,
      { trustedProxy: ["10.0.0.0/8", network] },
      {},
      /^--trusted-proxy wants an address, or a network such as/,
    ]),
    [
      "a proxy in the environment that is none",
      {},
      { LEMON_TRUSTED_PROXIES: "10.0.0.1,," },
      /^LEMON_TRUSTED_PROXIES wants/,
    ],
    ...["*", "https://*.example", "https://a.example/app", "a.example", "null", ""].map(
      (origin): [string, DoorFlags, Record<string, string>, RegExp] => [
        `the page ${origin || "without an origin"}`,
        { allowedOrigin: [origin] },
        {},
        /^--allowed-origin wants the origin of a page such as/,
      ],
    ),
  ];
  for (const [name, flags, environment, message] of wrong) {
    it(`refuses ${name}`, async () => {
      const refused = await refusalOf(async () => options(flags, environment));
      expect(refused.constructor.name).to.equal("UsageError");
      expect(refused.message).to.match(message);
    });
  }
});
