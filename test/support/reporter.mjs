/** Mocha's spec reporter, closed by the one line that a machine reads: `N passed, N failed`. */
import Mocha from "mocha";

export default class ClosingLineReporter extends Mocha.reporters.Spec {
  /** @override */
  epilogue() {
    super.epilogue();
    console.log(`${this.stats.passes} passed, ${this.stats.failures} failed`);
  }
}
