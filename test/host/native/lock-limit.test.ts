import { execFileSync } from "node:child_process";
import { expect } from "chai";
import { lockLimitOf, withLockLimit } from "../../../host/native/lock-limit.ts";

const linux = process.platform === "linux" ? describe : describe.skip;

linux("the limit of file locks", () => {
  const own = lockLimitOf(process.pid);

  it("is inherited by what is started under it, and is this process's own again afterwards", () => {
    const read = () => String(execFileSync("/bin/cat", ["/proc/self/limits"]));
    expect(withLockLimit(123_456_789_012_345_678n, read)).to.match(
      /^Max file locks +123456789012345678 /m,
    );
    expect(lockLimitOf(process.pid)).to.equal(own);
  });

  it("is this process's own again also when the start fails", () => {
    const fail = () => {
      throw new Error("refused");
    };
    expect(() => withLockLimit(1n, fail)).to.throw("refused");
    expect(lockLimitOf(process.pid)).to.equal(own);
  });

  it("of a process that is gone is not to be seen", () => {
    expect(lockLimitOf(2 ** 22)).to.equal(null);
  });
});
