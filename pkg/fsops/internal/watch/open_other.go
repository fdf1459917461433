//go:build !unix

package watch

// openDirectory is 0 here: no file makes an open wait.
const openDirectory = 0
