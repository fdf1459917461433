// Command true does nothing, successfully.
package main

func main() {}
