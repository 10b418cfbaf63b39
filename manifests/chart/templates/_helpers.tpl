{{/* What the overlay of the provider has; of a provider of your own, what the values say. */}}
{{- define "wasm-ccm.preset" -}}
{{- $file := printf "providers/%s.yaml" .Values.provider }}
{{- $preset := fromYaml (.Files.Get $file) }}
{{- if not $preset.flags }}
{{- $preset = dict "flags" (list (printf "--cloud-provider=%s" .Values.provider)) "settings" (gt (len .Values.settings) 0) }}
{{- $_ := set $preset "serviceAnnotations" (.Values.own.serviceAnnotations | default "^wasm-ccm[.]io/") }}
{{- $_ := set $preset "nodeLabels" (.Values.own.nodeLabels | default "^$") }}
{{- if .Values.credentials.secretName }}
{{- $_ := set $preset "credentials" (dict "volume" "credentials" "mountPath" "/credentials") }}
{{- end }}
{{- else }}
{{- range $name, $pattern := .Values.own }}
{{- if $pattern }}
{{- fail (printf "own.%s is given, and the chart knows what the provider %s writes: leave it out. It is for a provider of your own" $name $.Values.provider) }}
{{- end }}
{{- end }}
{{- if and .Values.credentials.secretName (not $preset.credentials) }}
{{- fail (printf "credentials.secretName is given, and the provider %s has no credentials: leave it out" .Values.provider) }}
{{- end }}
{{- end }}
{{- toYaml $preset }}
{{- end }}

{{/* The object, with the labels of the chart. */}}
{{- define "wasm-ccm.labelled" -}}
{{- $labels := dict
      "app.kubernetes.io/managed-by" .context.Release.Service
      "app.kubernetes.io/instance" .context.Release.Name
      "helm.sh/chart" (printf "%s-%s" .context.Chart.Name .context.Chart.Version) }}
{{- $_ := set .object.metadata "labels" (merge $labels (.object.metadata.labels | default dict)) }}
{{- toYaml .object }}
{{- end }}

{{/* The variables of the process: a new name for each content, the one that kustomize would give it. */}}
{{- define "wasm-ccm.settings" -}}
{{- $data := ternary .Values.settings "" (gt (len .Values.settings) 0) }}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 }}
{{- $hash = $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- printf "wasm-ccm-settings-%s" $hash }}
{{- end }}

{{/* The image, by tag or digest. */}}
{{- define "wasm-ccm.image" -}}
{{- if not .repository }}
{{- fail "image.repository is empty: build the image with `./just image`, push it to your registry, and give its name, as in --set image.repository=REGISTRY/wasm-ccm --set-string image.tag=TAG" }}
{{- end }}
{{- if eq .tag "TAG" }}
{{- fail "image.tag is TAG, which stands for a tag in the guide: give the one that you pushed" }}
{{- end }}
{{- if and .tag .digest }}
{{- fail "image.tag and image.digest are both given: give one of them" }}
{{- end }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else if .tag }}{{ .repository }}:{{ .tag }}{{ else }}
{{- fail "image.tag and image.digest are empty: give one of them" }}
{{- end }}
{{- end }}

{{/* One flag for each of the values. */}}
{{- define "wasm-ccm.flags" -}}
{{- $flags := list }}
{{- range .Values.loadBalancerClasses }}{{ $flags = append $flags (printf "--load-balancer-class=%s" .) }}{{ end }}
{{- range .Values.grants.allowHosts }}{{ $flags = append $flags (printf "--allow-host=%s" .) }}{{ end }}
{{- range .Values.grants.allowEnv }}{{ $flags = append $flags (printf "--allow-env=%s" .) }}{{ end }}
{{- range .Values.grants.allowAnnotations }}{{ $flags = append $flags (printf "--allow-annotation=%s" .) }}{{ end }}
{{- range .Values.grants.allowSharedAddresses }}{{ $flags = append $flags (printf "--allow-shared-address=%s" .) }}{{ end }}
{{- range .Values.grants.credentialUses }}{{ $flags = append $flags (printf "--credential-use=%s" .) }}{{ end }}
{{- range .Values.flags }}
{{- if and (hasPrefix "--secure-port" .) (ne . "--secure-port=10258") }}
{{- fail (printf "flags has %s, and the probes and the port of the pod are 10258: the pod would never be ready. Leave the flag out" .) }}
{{- end }}
{{- if and (hasPrefix "--bind-address" .) (not (has . (list "--bind-address=127.0.0.1" "--bind-address=0.0.0.0" "--bind-address=::"))) }}
{{- fail (printf "flags has %s, and the probes ask 127.0.0.1: the pod would never be ready. Leave the flag out, or give --bind-address=0.0.0.0" .) }}
{{- end }}
{{- end }}
{{- concat $flags .Values.flags | toYaml }}
{{- end }}
