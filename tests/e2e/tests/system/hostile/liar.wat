;; The code of a component that lies about its memory, which no compiler of Rust lets a guest do. It takes the place of the code of
;; the hostile guest, so the types around it are those of the contract.
;;
;; instances.find lies as the number in the name of the first Node says (lie-07-...); a Node of any other name is found. Where cabi_realloc
;; is asked for the name of a Node, its length says what is wrong.
(module
  (memory (export "memory") 64)
  (global $heap (mut i32) (i32.const 2097152))
  (global $after (mut i32) (i32.const 0))

  (data (i32.const 16) "liar1liar://good")
  ;; bytes that are no UTF-8, and half of a surrogate pair
  (data (i32.const 64) "\ff\fe\ed\a0\80")
  ;; the only scheme
  (data (i32.const 128) "\10\00\00\00\04\00\00\00")
  ;; the description: name, version, revision, schemes, and empty lists
  (data (i32.const 256) "\10\00\00\00\04\00\00\00" "\14\00\00\00\01\00\00\00" "\14\00\00\00\01\00\00\00" "\80\00\00\00\01\00\00\00")
  ;; 512: an answer without anything in it; 1024: the answer of find; 1088: its only finding
  (data (i32.const 1024) "\00\00\00\00\40\04\00\00\01\00\00\00")
  (data (i32.const 1088) "\00\00\00\00\15\00\00\00\0b\00\00\00")

  (func (export "ccm:cloud/meta@0.2.0#describe") (result i32) (i32.const 256))
  (func (export "ccm:cloud/meta@0.2.0#offers") (result i32) (i32.const 512))
  (func (export "ccm:cloud/meta@0.2.0#check") (param i32) (result i32) (i32.const 512))

  (func $digit (param $at i32) (result i32) (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))

  (func (export "ccm:cloud/instances@0.2.0#find") (param $nodes i32) (param $count i32) (param $need i32) (result i32)
    (local $name i32) (local $at i32)
    (local.set $name (i32.load (local.get $nodes)))
    ;; "lie-"
    (if (i32.ne (i32.load (local.get $name)) (i32.const 0x2d65696c)) (then (return (i32.const 1024))))
    (block $none
      (block $12 (block $11 (block $10 (block $9 (block $8 (block $7 (block $6 (block $5 (block $4 (block $3 (block $2 (block $1 (block $0
        (br_table $0 $1 $2 $3 $4 $5 $6 $7 $8 $9 $10 $11 $12 $none
          (i32.add
            (i32.mul (call $digit (i32.add (local.get $name) (i32.const 4))) (i32.const 10))
            (call $digit (i32.add (local.get $name) (i32.const 5))))))
      ;; 0: a provider ID that is no UTF-8
      (i32.store (i32.const 1092) (i32.const 64)) (i32.store (i32.const 1096) (i32.const 2)) (br $none))
      ;; 1: a provider ID with half of a surrogate pair
      (i32.store (i32.const 1092) (i32.const 66)) (i32.store (i32.const 1096) (i32.const 3)) (br $none))
      ;; 2: a finding of a kind that is not there
      (i32.store8 (i32.const 1088) (i32.const 7)) (br $none))
      ;; 3: neither a result nor an error
      (i32.store8 (i32.const 1024) (i32.const 9)) (br $none))
      ;; 4: a state that is not there
      (i32.store8 (i32.const 1140) (i32.const 77)) (br $none))
      ;; 5: an answer outside of the memory
      (return (i32.const -8)))
      ;; 6: an answer at an odd place
      (return (i32.const 1025)))
      ;; 7: findings outside of the memory
      (i32.store (i32.const 1028) (i32.const 0x70000000)) (br $none))
      ;; 8: more findings than there are numbers
      (i32.store (i32.const 1032) (i32.const -1)) (br $none))
      ;; 9: a provider ID that goes beyond the end of the memory
      (i32.store (i32.const 1092) (i32.const 0x3fffff)) (i32.store (i32.const 1096) (i32.const 2)) (br $none))
      ;; 10: labels that are all the same megabyte
      (local.set $at (i32.const 4096))
      (loop $more
        (i32.store (local.get $at) (i32.const 1048576))
        (i32.store (i32.add (local.get $at) (i32.const 4)) (i32.const 1048576))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br_if $more (i32.lt_u (local.get $at) (i32.const 20096))))
      (i32.store (i32.const 1132) (i32.const 4096)) (i32.store (i32.const 1136) (i32.const 1000)) (br $none))
      ;; 11: an endless loop after the answer
      (global.set $after (i32.const 1)) (br $none))
      ;; 12: a crash after the answer
      (global.set $after (i32.const 2)))
    (i32.const 1024))

  (func (export "cabi_post_ccm:cloud/instances@0.2.0#find") (param i32)
    (if (i32.eq (global.get $after) (i32.const 1)) (then (loop $ever (br $ever))))
    (if (i32.eq (global.get $after) (i32.const 2)) (then unreachable)))

  (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (if (i32.eq (local.get $align) (i32.const 1))
      (then
        (if (i32.eq (local.get $size) (i32.const 41)) (then (return (i32.const -16))))
        (if (i32.eq (local.get $size) (i32.const 43)) (then (loop $ever (br $ever))))
        (if (i32.eq (local.get $size) (i32.const 47)) (then unreachable))
        ;; where the answer is
        (if (i32.eq (local.get $size) (i32.const 53)) (then (return (i32.const 1024))))))
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at))

  (func (export "cabi_post_ccm:cloud/meta@0.2.0#describe") (param i32))
  (func (export "cabi_post_ccm:cloud/meta@0.2.0#offers") (param i32))
  (func (export "cabi_post_ccm:cloud/meta@0.2.0#check") (param i32))
  (func (export "cabi_post_ccm:cloud/cluster@0.2.0#reconcile") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancer-survey@0.2.0#survey") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#ensure") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#ensure-deleted") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#get") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#get-mark") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#locks") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#name") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#update-backends") (param i32))
  (func (export "cabi_post_ccm:cloud/load-balancers@0.2.0#validate") (param i32))

  ;; Whatever else there is.
  (func (export "ccm:cloud/cluster@0.2.0#reconcile") (param i32 i32 i32 i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancer-survey@0.2.0#survey") (param i32 i32 i32 i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#ensure") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#ensure-deleted") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#get") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#get-mark") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#locks") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#name") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#update-backends") (param i32) (result i32) unreachable)
  (func (export "ccm:cloud/load-balancers@0.2.0#validate") (param i32) (result i32) unreachable)
)
