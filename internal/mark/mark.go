// Package mark has what all marks of processes share. A mark is a number in two hard limits that no kernel uses
// any more for what they say. Descendants of a process inherit it, and cannot take that of another. The launcher of
// local sandboxes gives one to each sandbox, and the agent one to each exec, which must stay within
// that of the sandbox.
package mark

const (
	// Base stands for a hard limit that is unlimited.
	Base = 1 << 62
	// Depth is how many bits finer the steps between numbers are with each mark that is within another.
	Depth = 20
)
