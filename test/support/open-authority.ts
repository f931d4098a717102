/** Program: opens the controller's keys in the folder it is given and says which operator it has. */
import { join } from "node:path";
import { openAuthority } from "../../transport/keys/authority.ts";

const folder = process.argv[2] ?? "";
const authority = await openAuthority({
  keysFolder: join(folder, "keys"),
  recordsFolder: join(folder, "accounts"),
  resolverFolder: join(folder, "jwt"),
});
console.log(JSON.stringify([authority.systemAccount, authority.controllerAccount]));
