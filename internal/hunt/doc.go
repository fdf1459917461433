// Package hunt looks for a secret in all that a sandbox of this machine has, from outside of it, as root
// may. It is for tests only, on Linux.
package hunt
