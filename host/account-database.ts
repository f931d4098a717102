/**
 * Owns the reading of the account database: an account's numbers, and who belongs to a group, as members by name or
 * by their primary group.
 * Sources: group(5), passwd(5). Only the local files are read: the box has no other accounts.
 */
import { readFileSync } from "node:fs";

export interface Group {
  readonly gid: number;
  /** Names, sorted, each once. */
  readonly members: readonly string[];
}

export interface AccountFiles {
  readonly group: string;
  readonly passwd: string;
}

const FILES: AccountFiles = { group: "/etc/group", passwd: "/etc/passwd" };

/** Null when there is no such group. */
export function findGroup(name: string, files: AccountFiles = FILES): Group | null {
  const row = rowsOf(files.group).find(([group]) => group === name);
  const gid = numberOf(row?.[2]);
  if (row === undefined || gid === null) return null;
  const listed = (row[3] ?? "").split(",").filter((member) => member !== "");
  const primary = rowsOf(files.passwd).flatMap(([user, , , group]) =>
    user !== undefined && numberOf(group) === gid ? [user] : [],
  );
  return { gid, members: [...new Set([...listed, ...primary])].sort() };
}

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** Null when there is no such account. */
export function findAccount(name: string, files: AccountFiles = FILES): Account | null {
  const row = rowsOf(files.passwd).find(([user]) => user === name);
  const uid = numberOf(row?.[2]);
  const gid = numberOf(row?.[3]);
  return uid === null || gid === null ? null : { uid, gid };
}

function rowsOf(file: string): readonly (readonly string[])[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(":"));
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : null;
}
