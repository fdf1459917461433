// Runs the tests of the JavaScript client against the gateway of the environment.
import { describe } from "node:test";
import { checkpoints } from "./checkpoints.js";
import { cuts } from "./cuts.js";
import { errors } from "./errors.js";
import { graph } from "./graph.js";
import { spawning } from "./spawning.js";
import { standard } from "./standard.js";

describe("the JavaScript client", { concurrency: true }, () => {
  standard();
  graph();
  spawning();
  checkpoints();
  cuts();
  errors();
});
