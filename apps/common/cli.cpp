#include "apps/common/cli.hpp"

#include <iostream>
#include <string_view>

namespace cistern::apps {
namespace {

using Parse = Result<Amount, std::string> (*)(std::string_view);

CLI::Option* add_parsed(CLI::App& app, const std::string& name, std::optional<Amount>& target,
                        const std::string& help, Parse parse) {
  const auto read = [&target, name, parse](const std::string& text) {
    const auto amount = parse(text);
    if (!amount) throw UsageError(name + " " + amount.error());
    target = *amount;
  };
  return app.add_option_function<std::string>(name, read, help)->type_name("SIZE");
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  const auto complain = [&](const std::exception& error, const char* hint = "") {
    std::cerr << app.get_name() << ": " << error.what() << hint << '\n';
  };
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    complain(error, " (--help lists the options)");
    return kExitUsage;
  } catch (const UsageError& error) {
    complain(error);
    return kExitUsage;
  } catch (const Interrupted& error) {
    complain(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    complain(error);
    return kExitFailure;
  }
}

CLI::Option* add_limit(CLI::App& app, const std::string& name, std::optional<Amount>& target,
                       const std::string& help) {
  return add_parsed(app, name, target, help, parse_limit);
}

CLI::Option* add_amount(CLI::App& app, const std::string& name, std::optional<Amount>& target,
                        const std::string& help) {
  return add_parsed(app, name, target, help, parse_amount);
}

}  // namespace cistern::apps
