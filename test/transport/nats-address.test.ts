import { expect } from "chai";
import { leafUrls, natsSystem } from "../../transport/nats-address.ts";
import { refusalOf } from "../support/refusal.ts";

describe("the address of a NATS system", () => {
  const read = (text: string) => natsSystem("--nats", text);

  for (const [text, host, port] of [
    ["nats://nats.example", "nats.example", 4_222],
    ["nats://nats.example:80", "nats.example", 80],
    ["nats://10.0.0.7:4333/", "10.0.0.7", 4_333],
    ["tls://[2001:db8::7]:4333", "2001:db8::7", 4_333],
  ] as const) {
    it(`is ${host}, port ${port}, for ${text}`, () => {
      expect(read(text).servers).to.deep.equal([{ host, port }]);
    });
  }

  it("may be several servers, and one that says tls:// demands it of all", () => {
    expect(read("nats://a, nats://b:1,nats://c").servers.map(({ host }) => host)).to.deep.equal([
      "a",
      "b",
      "c",
    ]);
    expect(read("nats://a,nats://b").tls).to.equal(false);
    expect(read("nats://a,tls://b").tls).to.equal(true);
  });

  it("tells whether what passes can be read on the way", () => {
    for (const text of ["nats://a", "nats://localhost,nats://a", "nats://127.0.0.1.example"]) {
      expect(read(text).readable, text).to.equal(true);
    }
    for (const text of ["tls://a", "nats://127.0.0.1", "nats://localhost,nats://[::1]"]) {
      expect(read(text).readable, text).to.equal(false);
    }
  });

  for (const [what, text, why] of [
    ["without a scheme", "nats.example:4222", /--nats wants nats:/],
    ["for another protocol", "http://nats.example", /--nats wants nats:/],
    ["when it is empty", "", /--nats wants nats:/],
    ["when a part is empty", "nats://a,,nats://b", /--nats wants nats:/],
    ["without a host", "nats://:4222", /--nats wants nats:/],
    ["with a port that is too high", "nats://a:65536", /--nats wants nats:/],
    ["with port 0", "nats://a:0", /--nats wants nats:/],
    ["when it holds a user", "nats://user:secret@a", /must not hold credentials/],
    ["when it holds a token", "nats://token@a", /must not hold credentials/],
    ["with a path", "nats://a/path", /must not hold a path/],
    ["with a query", "nats://a?x=1", /neither a query nor a fragment/],
    ["for too many servers", Array(17).fill("nats://a").join(","), /at most 16/],
  ] as const) {
    it(`is refused ${what}, and shown to nobody`, async () => {
      const refused = await refusalOf(() => read(text));
      expect(refused.code).to.equal("invalid_request");
      expect(refused.message).to.match(why);
      expect(refused.message).not.to.match(/secret|user|token@/);
    });
  }

  it("may be at the first port and at the last", () => {
    expect(read("nats://a:1,nats://a:65535").servers.map(({ port }) => port)).to.deep.equal([
      1, 65_535,
    ]);
  });

  it("may be sixteen servers", () => {
    expect(read(Array(16).fill("nats://a").join(",")).servers).to.have.length(16);
  });
});

describe("where leafs connect", () => {
  const read = (text: string) => leafUrls("--nats-leaf-url", text);

  for (const [text, url] of [
    ["nats://nats.example", "nats://nats.example:7422"],
    ["tls://nats.example/", "tls://nats.example:7422"],
    ["wss://nats.example", "wss://nats.example:443"],
    ["wss://nats.example/lemon/", "wss://nats.example:443/lemon"],
    ["ws://[::1]:8080", "ws://[::1]:8080"],
    ["ws://nats.example", "ws://nats.example:80"],
  ] as const) {
    it(`is ${url} for ${text}`, () => {
      expect(read(text).urls).to.deep.equal([url]);
    });
  }

  it("tells whether what passes can be read on the way, to any of them", () => {
    for (const text of ["nats://a", "ws://a", "tls://a,nats://b", "wss://a,ws://b"]) {
      expect(read(text).readable, text).to.equal(true);
    }
    for (const text of ["tls://a", "wss://a", "ws://127.0.0.1:1", "nats://localhost,tls://b"]) {
      expect(read(text).readable, text).to.equal(false);
    }
  });

  for (const [what, text, why] of [
    ["for a web page", "https://a", /wants tls:/],
    ["when it holds credentials", "tls://user:secret@a", /must not hold credentials/],
    ["with a path, and no websocket", "tls://a/path", /must not hold a path/],
    ["when both sorts are in it", "wss://a,tls://b", /must not mix/],
    ["with a fragment", "wss://a#b", /neither a query nor a fragment/],
  ] as const) {
    it(`is refused ${what}`, async () => {
      const refused = await refusalOf(() => read(text));
      expect(refused.code).to.equal("invalid_request");
      expect(refused.message).to.match(why);
    });
  }
});
