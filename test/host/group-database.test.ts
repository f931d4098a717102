import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { findGroup } from "../../host/group-database.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

describe("the group database", () => {
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

  it("is the one of this machine by default", () => {
    expect(findGroup("root")?.gid).to.equal(0);
  });
});
