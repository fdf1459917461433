//go:build !goexperiment.simd || !amd64

package object

func clearUpper() {}
