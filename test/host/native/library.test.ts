import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { checked, checkedErrno, hasNative, native } from "../../../host/native/library.ts";
import { SystemError, systemFailure } from "../../../host/system-error.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a call into the C library", () => {
  it("answers what the function answers", () => {
    expect(native("int getpid()")()).to.equal(process.pid);
    expect(native("long labs(long n)")(-5)).to.equal(5);
  });

  it("tells a failure by its errno's name", () => {
    const close = native("int close(int fd)");
    expect(() => checked("close", close(-1)))
      .to.throw(SystemError)
      .with.property("code", "EBADF");
    expect(() => checkedErrno("posix_spawn", 2))
      .to.throw(SystemError)
      .with.property("code", "ENOENT");
    expect(() => checkedErrno("posix_spawn", 99_999))
      .to.throw(SystemError)
      .with.property("code", "EUNKNOWN");
    checkedErrno("posix_spawn", 0);
  });

  it("is refused with NUL in a string, alone or in a list, before it is made", async () => {
    const puts = native("int puts(const char *text)");
    expect((await refusalOf(() => puts("never\0printed"))).code).to.equal("invalid_params");
    const execve = native("int execve(const char *path, const char **argv, const char **envp)");
    const refusal = await refusalOf(() => execve("/bin/false", ["false", "a\0b", null], [null]));
    expect(refusal.code).to.equal("invalid_params");
  });

  it("of a function that is not there is an error of the call, not of the declaration", async () => {
    expect(hasNative("int getpid()")).to.equal(true);
    expect(hasNative("int no_such_function()")).to.equal(false);
    const missing = native("int no_such_function()");
    expect((await refusalOf(() => missing())).code).to.equal("not_implemented");
  });

  it("is a clear error where koffi does not exist, and importing fails nowhere", () => {
    const room = (path: string) => new URL(`../../../host/${path}`, import.meta.url).href;
    const hooks = `import { registerHooks } from "node:module";
      registerHooks({ resolve(name, context, next) {
        if (name === "koffi") throw new Error("no koffi here");
        return next(name, context);
      } });`;
    const script = `
      const { SystemSpawner } = await import(${JSON.stringify(room("spawner.ts"))});
      const { pinRoots } = await import(${JSON.stringify(room("allowed-roots.ts"))});
      const { lockFile } = await import(${JSON.stringify(room("file-lock.ts"))});
      await import(${JSON.stringify(room("host-info.ts"))});
      const told = (attempt) => { try { attempt(); return "nothing"; } catch (failure) { return failure.code; } };
      console.log(
        told(() => new SystemSpawner({ log: console })),
        told(() => pinRoots({ roots: ["/"], defaultCwd: "/", stateFolder: "/" })),
        told(() => lockFile("/dev/null")),
      );
      process.exit(0);`;
    const flags = [
      "--import",
      `data:text/javascript,${encodeURIComponent(hooks)}`,
      "--input-type=module",
    ];
    const { stdout, stderr } = spawnSync(process.execPath, [...flags, "-e", script], {
      encoding: "utf8",
      cwd: fileURLToPath(new URL("../../..", import.meta.url)),
    });
    expect(stderr).to.equal("");
    expect(stdout.trim()).to.equal("not_implemented not_implemented not_implemented");
  });
});

describe("a failure of the system", () => {
  it("becomes an error of the table that names no more than its errno", () => {
    for (const [errno, code] of [
      ["ENOENT", "not_found"],
      ["ENOTDIR", "not_directory"],
      ["EACCES", "permission_denied"],
      ["EROFS", "permission_denied"],
      ["ENOSPC", "no_space"],
      ["EDQUOT", "no_space"],
      ["EMFILE", "unavailable"],
    ] as const) {
      const failure = systemFailure(
        Object.assign(new Error("open '/secret/path'"), { code: errno }),
      );
      expect(failure.code).to.equal(code);
      expect(failure.details).to.deep.equal({ errno });
      expect(failure.message).not.to.contain("/secret/path");
    }
    expect(systemFailure(new TypeError("a defect")).code).to.equal("internal_error");
    expect(systemFailure("a string").code).to.equal("internal_error");
  });
});
