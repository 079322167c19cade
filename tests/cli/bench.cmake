# cistern-bench, on the built drivers, none of which needs a peer.
if(TARGET cistern_peer_cistern)
  add_test(NAME cli.bench
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/bench_test.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/cistern-bench -v)
  set_tests_properties(cli.bench PROPERTIES LABELS cli TIMEOUT 600)
endif()
