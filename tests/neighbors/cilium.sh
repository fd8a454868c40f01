for table in filter nat mangle; do iptables -t $table -N CILIUM_OUTPUT_$table; done
iptables -N CILIUM_FORWARD
iptables -A CILIUM_FORWARD -o pod+ -m comment --comment "cilium: any->cluster on pods" -j ACCEPT
iptables -I FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD
iptables -t nat -N CILIUM_POST_nat
iptables -t nat -I POSTROUTING -m comment --comment "cilium-feeder: CILIUM_POST_nat" -j CILIUM_POST_nat
--
iptables -E CILIUM_FORWARD OLD_CILIUM_FORWARD
iptables -N CILIUM_FORWARD
iptables -A CILIUM_FORWARD -o pod+ -m comment --comment "cilium: any->cluster on pods" -j ACCEPT
iptables -I FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD
iptables -D FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j OLD_CILIUM_FORWARD
iptables -F OLD_CILIUM_FORWARD
iptables -X OLD_CILIUM_FORWARD
