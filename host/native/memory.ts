/** Owns memory that is a descriptor (memfd_create(2)): whoever holds it shares the same bytes. */
import { hasNative, native } from "./library.ts";

const DECLARATION = "int memfd_create(const char *name, uint flags)";
const MFD_CLOEXEC = 1;

const memfdCreate = native(DECLARATION);

/** Empty; grows with what is written. Null where the system has no such thing. The caller closes it. */
export function openMemory(name: string): number | null {
  if (process.platform !== "linux" || !hasNative(DECLARATION)) return null;
  const fd = memfdCreate(name, MFD_CLOEXEC);
  return fd === -1 ? null : fd;
}
