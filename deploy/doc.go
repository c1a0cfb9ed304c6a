// Package deploy is what operators install: the image, the compose file, the chart, the unit, the
// dashboard and the alerts. Its tests hold them to what the program says of itself.
package deploy
