//go:build !race

package main

import "testing"

func TestRoundTripOf1GiBThroughTheCLI(t *testing.T) { newCLI(t).roundTrip("file", 1<<30) }
