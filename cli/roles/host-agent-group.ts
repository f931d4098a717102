/**
 * Owns the check of the group that the socket belongs to: whoever is in it may do all that the host-agent can
 * (host-agent contract, "Authentication & authorization").
 */
import { findGroup, type Group } from "../../host/account-database.ts";
import { LemonError } from "../../protocol/errors.ts";
import { printable } from "../printable.ts";

export interface GroupWish {
  readonly group: string;
  /** Without it there is no start. */
  readonly required: boolean;
  /** Any other number of members than one is no start. */
  readonly strict: boolean;
}

/** The group's number, or null to leave the socket with its owner's. Errors: `group_unusable`. */
export function socketGroup(
  { group, required, strict }: GroupWish,
  say: (line: string) => void,
  find: (name: string) => Group | null = findGroup,
): number | null {
  const name = printable(group);
  const found = find(group);
  if (found === null) {
    const missing = `there is no group ${name}`;
    if (required || strict) {
      throw refused(
        `${missing}; make it (groupadd --system ${name}), or name another with --group`,
      );
    }
    say(`${missing}: the socket stays with this account's own group`);
    return null;
  }
  const { gid, members } = found;
  if (members.length !== 1) {
    const count = members.length === 0 ? "no member" : `${members.length} members`;
    const wrong = `group ${name} has ${count}; it must have exactly one, the brain's account`;
    if (strict) throw refused(wrong);
    say(`WARNING: ${wrong}: whoever is in it may do all that the host-agent can`);
  }
  return gid;
}

function refused(why: string): LemonError {
  return new LemonError("group_unusable", {
    message: `The socket's group can not be used: ${why}`,
  });
}
