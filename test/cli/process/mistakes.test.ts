/** Proves that `lemon process run` sends nothing of what it does not understand. */
import { expect } from "chai";
import { ProcessCommand } from "../../support/process-command.ts";

describe("a mistaken lemon process run", () => {
  let command: ProcessCommand;
  beforeEach(async () => {
    command = await ProcessCommand.open();
  });
  afterEach(() => command.close());

  const mistakes: readonly {
    readonly name: string;
    readonly words: readonly string[];
    readonly stderr: RegExp;
  }[] = [
    { name: "no command", words: ["worker-1", "--"], stderr: /nothing to run/ },
    {
      name: "no -- before the command",
      words: ["worker-1", "uname", "-a"],
      stderr: /stands after --/,
    },
    { name: "no node", words: ["--", "true"], stderr: /missing required argument 'node'/ },
    {
      name: "an empty executable",
      words: ["w", "--", ""],
      stderr: /the command must name an executable/,
    },
    {
      name: "an id outside its alphabet",
      words: ["w", "--id", "a b", "--", "x"],
      stderr: /--id must be 1 to 128/,
    },
    {
      name: "a timeout without unit",
      words: ["w", "--timeout", "60", "--", "x"],
      stderr: /--timeout wants a duration/,
    },
    {
      name: "a timeout too short",
      words: ["w", "--timeout", "999ms", "--", "x"],
      stderr: /--timeout must be 1s to 30m/,
    },
    {
      name: "a timeout too long",
      words: ["w", "--timeout", "1800001ms", "--", "x"],
      stderr: /--timeout must be 1s to 30m/,
    },
    {
      name: "an output bound of nothing",
      words: ["w", "--max-output", "0", "--", "x"],
      stderr: /--max-output must be 1 to 1MiB/,
    },
    {
      name: "an output bound too great",
      words: ["w", "--max-output", "1048577", "--", "x"],
      stderr: /--max-output must be 1 to 1MiB/,
    },
    {
      name: "a cwd with ..",
      words: ["w", "--cwd", "a/../b", "--", "x"],
      stderr: /--cwd must not contain \.\./,
    },
    {
      name: "an empty cwd",
      words: ["w", "--cwd", "", "--", "x"],
      stderr: /--cwd must not be empty/,
    },
    {
      name: "too many arguments",
      words: ["w", "--", ...Array.from({ length: 129 }, () => "x")],
      stderr: /at most 128 entries/,
    },
    {
      name: "arguments too long together",
      words: ["w", "--", "a".repeat(65_536), "b".repeat(65_537)],
      stderr: /131072 bytes in total/,
    },
    {
      name: "an argument that was not UTF-8",
      words: ["w", "--", "caf\ufffd"],
      stderr: /not valid UTF-8/,
    },
    {
      name: "a standard input that is not there",
      words: ["w", "--stdin", "gone", "--", "x"],
      stderr: /--stdin can not be read \(ENOENT\)/,
    },
    {
      name: "an unknown flag",
      words: ["w", "--timout", "1s", "--", "x"],
      stderr: /Did you mean --timeout/,
    },
    {
      name: "an unknown interrupt policy",
      words: ["w", "--on-interrupt", "panic", "--", "x"],
      stderr: /Allowed choices are ask, cancel, detach/,
    },
  ];
  for (const { name, words, stderr } of mistakes) {
    it(`ends with 2 for ${name}, before anything is sent`, async () => {
      expect(await command.run(...words)).to.equal(2);
      expect(command.shell.stderr.text).to.match(stderr);
      expect(command.shell.stdout.text).to.equal("");
      command.shell = command.newShell();
      expect(await command.run("--json", ...words)).to.equal(2);
      expect(command.shell.document).to.have.nested.property("error.exitCode", 2);
      expect(command.peer.connections).to.deep.equal([]);
    });
  }
});
