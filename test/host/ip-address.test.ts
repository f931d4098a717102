import { assert } from "chai";
import { canonicalAddress, isLoopbackAddress, placeOf } from "../../host/ip-address.ts";

describe("an address", () => {
  it("has one spelling", () => {
    const spellings: readonly [string, string | null][] = [
      ["192.0.2.1", "192.0.2.1"],
      ["::ffff:192.0.2.1", "192.0.2.1"],
      ["::FFFF:c000:201", "192.0.2.1"],
      ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
      ["fe80::1%eth0", "fe80::1"],
      ["::", "::"],
      ["192.0.2.1:80", null],
      ["unknown", null],
      ["", null],
    ];
    for (const [text, canonical] of spellings)
      assert.equal(canonicalAddress(text), canonical, text);
  });
});

describe("a loopback address", () => {
  it("is 127/8, ::1 or the first mapped into IPv6, however it is written", () => {
    for (const address of [
      "127.0.0.1",
      "127.255.255.254",
      "::1",
      "0:0:0:0:0:0:0:1",
      "::ffff:127.0.0.1",
      "::ffff:7f00:1",
    ]) {
      assert.isTrue(isLoopbackAddress(address), address);
    }
    for (const address of [
      "128.0.0.1",
      "10.0.0.1",
      "0.0.0.0",
      "::",
      "::2",
      "::ffff:10.0.0.1",
      "::127.0.0.1",
      "localhost",
      "",
      "127.1",
    ]) {
      assert.isFalse(isLoopbackAddress(address), address);
    }
  });
});

describe("the place of an address", () => {
  const placeFor = (address: string): string => JSON.stringify(placeOf(address));

  it("is an IPv4 address itself, also a mapped one, and no site", () => {
    assert.deepEqual(placeOf("192.0.2.1"), { network: "192.0.2.1", site: null });
    for (const mapped of ["::ffff:192.0.2.1", "::FFFF:192.0.2.1", "::ffff:c000:201"])
      assert.equal(placeFor(mapped), placeFor("192.0.2.1"), mapped);
  });

  it("is a /64 of IPv6, and as its site a /48, however the address is written", () => {
    const here = placeOf("2001:db8:0:1::1");
    for (const spelling of [
      "2001:db8::1:0:0:0:1",
      "2001:0DB8:0000:0001:ffff:ffff:ffff:ffff",
      "2001:db8:0:1:0:0:192.0.2.1",
      "2001:db8:0:1::1%eth0",
    ])
      assert.deepEqual(placeOf(spelling), here, spelling);
    const [beside, beyond] = [placeOf("2001:db8:0:2::1"), placeOf("2001:db8:1:1::1")];
    assert.notEqual(beside.network, here.network);
    assert.equal(beside.site, here.site);
    assert.notEqual(beyond.network, here.network);
    assert.notEqual(beyond.site, here.site);
  });

  it("is the text itself of what is no address", () => {
    assert.deepEqual(placeOf("nobody"), { network: "nobody", site: null });
  });
});
