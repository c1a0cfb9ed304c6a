package config

import _ "embed" // for the example

// Example is a commented configuration to begin with, in front of the node of a
// real network.
//
//go:embed example.yaml
var Example string
