/**
 * A client of podagent's gateway: sandboxes, their files, and their commands.
 *
 * @packageDocumentation
 */
export { Gateway } from "./gateway.js";
export { Sandbox } from "./sandbox.js";
export { Search } from "./search.js";
export type { GatewayOptions } from "./connection.js";
export type { ExecOptions, ExecResult, StreamOptions } from "./exec.js";
export { CutError, isProblem, PodagentError, type Problem, type ProblemClass, ProblemError, UnreachableError } from "./errors.js";
export type * from "./types.js";
