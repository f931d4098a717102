import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { findAccount, findGroup } from "../../host/account-database.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

describe("the account database", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  function find(name: string, group: string, passwd = "") {
    const files = { group: join(folder.path, "group"), passwd: join(folder.path, "passwd") };
    writeFileSync(files.group, group);
    writeFileSync(files.passwd, passwd);
    return findGroup(name, files);
  }

  it("counts members by name and by primary group, each once", () => {
    const group = "root:x:0:\nmalmo:x:3000:brain,alex\nmalmo-shared:x:2001:cindy\n";
    const passwd = "brain:x:10:3000::/:/bin/false\nleft:x:11:3000::/:/bin/sh\nalex:x:12:12::/:\n";
    expect(find("malmo", group, passwd)).to.deep.equal({
      gid: 3000,
      members: ["alex", "brain", "left"],
    });
  });

  it("has no group of another name, and none without a number", () => {
    expect(find("malm", "malmo:x:3000:\n")).to.equal(null);
    expect(find("malmo", "malmo:x::brain\n")).to.equal(null);
    expect(find("malmo", "# malmo\n\nmalmo:x:3000:\n")).to.deep.equal({ gid: 3000, members: [] });
  });

  it("has an account's numbers, of one that stands there with both", () => {
    find("none", "", "store:x:998:997::/:/bin/false\nbroken:x:998\n");
    const files = { group: join(folder.path, "group"), passwd: join(folder.path, "passwd") };
    expect(findAccount("store", files)).to.deep.equal({ uid: 998, gid: 997 });
    expect(findAccount("broken", files)).to.equal(null);
    expect(findAccount("stor", files)).to.equal(null);
  });

  it("is the one of this machine by default", () => {
    expect(findAccount("root")).to.deep.equal({ uid: 0, gid: 0 });
    expect(findGroup("root")?.gid).to.equal(0);
  });
});
