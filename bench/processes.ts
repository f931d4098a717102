/** Owns what processes take up of the machine, as Linux counts it (proc(5)). */
import { readdirSync, readFileSync } from "node:fs";

const MIB = 1_048_576;

/** Resident memory of one process, in MiB. */
export function residentMib(pid: number): number {
  return (field(readFileSync(`/proc/${pid}/status`, "utf8"), "VmRSS") * 1_024) / MIB;
}

/** Resident memory of a process and of everything below it, in MiB. */
export function residentTreeMib(pid: number): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      parents.set(Number(name), field(readFileSync(`/proc/${name}/status`, "utf8"), "PPid"));
    } catch {
      // It has ended meanwhile.
    }
  }
  const below = (parent: number): number[] => [
    parent,
    ...[...parents].filter(([, of]) => of === parent).flatMap(([child]) => below(child)),
  ];
  return below(pid).reduce((sum, member) => sum + residentMib(member), 0);
}

/** Processor time of a process so far, in ms; Linux counts it in steps of 10. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // Its name may have any character in it.
  const [, , ...fields] = stat.slice(stat.lastIndexOf(")")).split(" ");
  return (Number(fields[10]) + Number(fields[11])) * 10;
}

function field(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
}
