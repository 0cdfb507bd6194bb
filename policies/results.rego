# Results. What must be done to a result before it is given out: the lists under `results` in
# data.yaml.
package douane

duty contains {"duty": "redact", "patterns": patterns} if {
	input.phase == "result"
	patterns := data.douane.results.redact
	count(patterns) > 0
}

duty contains {"duty": "truncate", "bytes": data.douane.results.truncate_bytes} if {
	input.phase == "result"
	data.douane.results.truncate_bytes > 0
}
