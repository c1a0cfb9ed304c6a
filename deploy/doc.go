// Package deploy holds what operators install: image, compose file, chart, unit, dashboard and
// alerts. It has tests alone, and this file, so that it builds like every other package.
package deploy
