import { assert } from "chai";
import fc from "fast-check";
import { AddressCounts } from "../../../gateways/http/addresses.ts";
import { parseNetwork, TrustedProxies } from "../../../gateways/http/proxies.ts";

describe("the connections of one address", () => {
  const counts = (perAddress = 2, countLoopback = false, perSite = 5) =>
    new AddressCounts({ perAddress, countLoopback, perSite });

  it("are as many as may be, and one more when one has left", () => {
    const some = counts();
    const first = some.take("192.0.2.1");
    assert.isNotNull(some.take("192.0.2.1"));
    assert.isNull(some.take("192.0.2.1"));
    assert.isNull(some.take("::ffff:192.0.2.1"));
    assert.isNotNull(some.take("192.0.2.2"));
    first?.();
    assert.isNotNull(some.take("192.0.2.1"));
    assert.isNull(some.take("192.0.2.1"));
  });

  it("are those of a whole /64 in IPv6: one host can have every address of it", () => {
    const some = counts();
    assert.isNotNull(some.take("2001:db8:0:1::1"));
    assert.isNotNull(some.take("2001:db8:0:1:ffff:ffff:ffff:ffff"));
    assert.isNull(some.take("2001:db8:0:1::2"));
    assert.isNotNull(some.take("2001:db8:0:2::1"));
    assert.isNotNull(some.take("2001:db8::1"));
    assert.isNotNull(some.take("64:ff9b::192.0.2.1"));
    assert.isNotNull(some.take("64:ff9b::c000:202"));
    assert.isNull(some.take("64:ff9b::192.0.2.3"));
  });

  it("are bounded for a whole /48 too, which a site can have, and free again when they leave", () => {
    const some = counts();
    const leave = [1, 2, 3, 4, 5].map((n) => some.take(`2001:db8:1:${n}::1`));
    assert.isFalse(leave.includes(null));
    assert.isNull(some.take("2001:db8:1:6::1"));
    assert.isNotNull(some.take("2001:db8:2:6::1"));
    leave[0]?.();
    // Who was turned away has counted nowhere.
    assert.isNotNull(some.take("2001:db8:1:6::1"));
    assert.isNull(some.take("2001:db8:1:6::2"));
    for (const one of leave.slice(1)) one?.();
    assert.isNotNull(some.take("2001:db8:1:6::2"));
    assert.isNull(some.take("2001:db8:1:6::3"));
  });

  it("are not counted for this machine's own, unless that was asked for", () => {
    const some = counts(1);
    const strict = counts(1, true);
    for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      assert.isNotNull(some.take(address));
      assert.isNotNull(some.take(address));
    }
    assert.isNotNull(strict.take("127.0.0.1"));
    assert.isNull(strict.take("::ffff:127.0.0.1"));
  });
});

describe("who calls through a proxy", () => {
  const networks = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"].map(parseNetwork);
  const proxies = new TrustedProxies(networks.filter((network) => network !== null));
  const listed = (address: string, list: string) =>
    proxies.callerOf(address, { "x-forwarded-for": list });
  const forwarded = (address: string, header: string) =>
    proxies.callerOf(address, { forwarded: header });

  it("is the socket's other end, whatever its headers say, when that is no trusted proxy", () => {
    for (const address of ["198.51.100.1", "11.0.0.1", "192.0.2.8", "fe00::1", "127.0.0.1"]) {
      assert.equal(listed(address, "203.0.113.5"), address);
      assert.equal(forwarded(address, "for=203.0.113.5"), address);
    }
    assert.equal(listed("::ffff:198.51.100.1", "203.0.113.5"), "198.51.100.1");
  });

  it("is the one that the proxy names", () => {
    for (const address of [
      "10.0.0.1",
      "10.255.255.255",
      "::ffff:10.0.0.1",
      "192.0.2.7",
      "fd00::1",
    ]) {
      assert.equal(listed(address, "203.0.113.5"), "203.0.113.5", address);
      assert.equal(forwarded(address, "for=203.0.113.5;proto=https"), "203.0.113.5", address);
    }
  });

  it("is the rightmost one that is no proxy: what stands left of it, it may have written itself", () => {
    assert.equal(listed("10.0.0.1", "127.0.0.1, 203.0.113.5"), "203.0.113.5");
    assert.equal(listed("10.0.0.1", "127.0.0.1, 203.0.113.5, 10.0.0.9 ,192.0.2.7"), "203.0.113.5");
    assert.equal(
      forwarded("10.0.0.1", "for=127.0.0.1, For=203.0.113.5, for=10.0.0.9"),
      "203.0.113.5",
    );
    assert.equal(listed("10.0.0.1", "10.0.0.2, 10.0.0.3"), "10.0.0.2");
  });

  it("is the last one known where a hop has no address", () => {
    for (const hop of ["unknown", "_hidden", "", "10.0.0", "a.example", "1.2.3.4.5", "[10.0.0.1"]) {
      assert.equal(listed("10.0.0.1", `203.0.113.5, ${hop}`), "10.0.0.1", hop);
      assert.equal(listed("10.0.0.1", `203.0.113.5,${hop},10.0.0.2`), "10.0.0.2", hop);
    }
    assert.equal(forwarded("10.0.0.1", "proto=https"), "10.0.0.1");
    assert.equal(proxies.callerOf("10.0.0.1", {}), "10.0.0.1");
  });

  it("may be written with a port, in brackets, in quotes", () => {
    assert.equal(listed("10.0.0.1", "203.0.113.5:1234"), "203.0.113.5");
    assert.equal(listed("10.0.0.1", "[2001:DB8::5]:1234"), "2001:db8::5");
    assert.equal(listed("10.0.0.1", "2001:db8::5"), "2001:db8::5");
    assert.equal(forwarded("10.0.0.1", 'for="[2001:db8::5]:47",for="10.1.1.1:80"'), "2001:db8::5");
    assert.equal(forwarded("10.0.0.1", 'by=x;for="203.0.113.\\5"'), "203.0.113.5");
    assert.equal(forwarded("10.0.0.1", 'a="for=1.1.1.1, \\" x";for=203.0.113.5'), "203.0.113.5");
  });

  it("is nobody when one header can not be read, or the two name different ones", () => {
    for (const header of [
      'for="203.0.113.5',
      "for",
      "for=a b",
      'for="a"b',
      "=x",
      "for=1.1.1.1;;",
    ]) {
      assert.isNull(forwarded("10.0.0.1", header), header);
    }
    const both = (list: string, header: string) =>
      proxies.callerOf("10.0.0.1", { "x-forwarded-for": list, forwarded: header });
    assert.isNull(both("203.0.113.5", "for=203.0.113.6"));
    assert.equal(both("203.0.113.5", "for=203.0.113.5"), "203.0.113.5");
    assert.equal(both("1.1.1.1, 203.0.113.5", "for=203.0.113.5:80"), "203.0.113.5");
  });

  it("is never one that the caller wrote, whatever it wrote", () => {
    const header = fc.string({ maxLength: 60, unit: fc.constantFrom(...'for="\\,;: []1.0a') });
    fc.assert(
      fc.property(header, (text) => {
        const own = "203.0.113.5";
        assert.equal(listed("10.0.0.1", `${text}, ${own}`), own);
        assert.include([own, null], forwarded("10.0.0.1", `${text}, for=${own}`));
      }),
      { numRuns: 2_000 },
    );
  });

  it("speaks TLS when a trusted proxy says so, and not when it says so itself", () => {
    const proto = (address: string, value: string) =>
      proxies.isSecure(address, { "x-forwarded-proto": value });
    assert.isTrue(proto("10.0.0.1", "https"));
    assert.isTrue(proto("10.0.0.1", "http, HTTPS"));
    assert.isFalse(proto("10.0.0.1", "https, http"));
    assert.isFalse(proto("198.51.100.1", "https"));
    assert.isTrue(proxies.isSecure("10.0.0.1", { forwarded: "for=1.1.1.1;proto=https" }));
    assert.isFalse(proxies.isSecure("10.0.0.1", { forwarded: "for=1.1.1.1" }));
    assert.isFalse(proxies.isSecure("10.0.0.1", {}));
  });
});
