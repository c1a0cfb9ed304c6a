// Package deploy holds what operators install: image, compose file, chart, unit, dashboard and
// alerts. Besides this file, it has only tests as Go code.
package deploy
